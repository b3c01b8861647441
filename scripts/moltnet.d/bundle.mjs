// Bundles MoltNet's SDK and the tools of its extension for pi from a copy of its source.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const source = path.resolve(process.argv[2]);
const libraries = ['sdk', 'api-client', 'crypto-service', 'models', 'agent-config', 'runtime-profiles', 'tasks',
  'os-keyring', 'credentials', 'oauth-token-cache'];
const known = new Map();
for (const library of libraries) {
  const directory = path.join(source, 'libs', library);
  const file = path.join(directory, 'package.json');
  if (!existsSync(file)) continue;
  const { name, exports } = JSON.parse(readFileSync(file, 'utf8'));
  known.set(name, { directory, exports: exports ?? { '.': './src/index.ts' } });
}
// What the tools need of pi and of MoltNet's own sandbox.
const standIns = {
  '@earendil-works/pi-ai': "export { Type } from 'typebox';",
  '@earendil-works/pi-coding-agent': 'export const defineTool = (tool) => tool;',
  '@themoltnet/sandbox-gondolin': 'export const isResolvedPathInsideRoot = () => true;',
};
const plugin = {
  name: 'source',
  setup(build) {
    build.onResolve({ filter: /^@(moltnet|themoltnet|earendil-works)\// }, ({ path: asked }) => {
      if (asked in standIns) return { path: asked, namespace: 'stand-in' };
      const [scope, name, ...rest] = asked.split('/');
      const found = known.get(`${scope}/${name}`);
      const exported = found?.exports[['.', ...rest].join('/')];
      const file = typeof exported === 'string' ? exported : exported?.import;
      return file ? { path: path.join(found.directory, file) } : { path: asked, external: true };
    });
    build.onLoad({ filter: /./, namespace: 'stand-in' }, ({ path: asked }) => (
      { contents: standIns[asked], resolveDir: process.cwd() }));
  },
};
const contents = `
  export { connect } from '${source}/libs/sdk/src/connect.ts';
  export { createMoltNetTools } from '${source}/libs/pi-runtime/src/moltnet/tools.ts';
`;
await build({
  stdin: { contents, resolveDir: process.cwd(), loader: 'ts' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  outfile: 'moltnet.mjs',
  plugins: [plugin],
  nodePaths: [path.resolve('node_modules')],
  external: ['@github/keytar', '@opentelemetry/*', '@tanstack/*'],
  logLevel: 'error',
});
