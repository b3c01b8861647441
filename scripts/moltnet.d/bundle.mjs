// Bundles MoltNet's SDK, the tools of its extension for pi and its daemon from a copy of its source.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const source = path.resolve(process.argv[2]);
const known = new Map();
for (const library of readdirSync(path.join(source, 'libs'))) {
  const directory = path.join(source, 'libs', library);
  const file = path.join(directory, 'package.json');
  if (!existsSync(file)) continue;
  const { name, exports } = JSON.parse(readFileSync(file, 'utf8'));
  known.set(name, { directory, exports: exports ?? { '.': './src/index.ts' } });
}
const plugin = {
  name: 'source',
  setup(build) {
    build.onResolve({ filter: /^@(moltnet|themoltnet)\// }, ({ path: asked }) => {
      const [scope, name, ...rest] = asked.split('/');
      const found = known.get(`${scope}/${name}`);
      const exported = found?.exports[['.', ...rest].join('/')];
      const file = typeof exported === 'string' ? exported : exported?.import;
      return file ? { path: path.join(found.directory, file) } : { path: asked, external: true };
    });
  },
};
const contents = `
  export { connect } from '${source}/libs/sdk/src/connect.ts';
  export { createMoltNetTools } from '${source}/libs/pi-runtime/src/moltnet/tools.ts';
  export { runAgentDaemonCli } from '${source}/apps/agent-daemon/src/cli.ts';
`;
await build({
  stdin: { contents, resolveDir: process.cwd(), loader: 'ts' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  outfile: 'moltnet.mjs',
  // Some of what is bundled is of the older kind of modules.
  banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
  plugins: [plugin],
  nodePaths: [path.resolve('node_modules')],
  external: ['@earendil-works/*', '@github/keytar', '@opentelemetry/*', '@tanstack/*', 'pino', 'pino-pretty', 'web-tree-sitter'],
  logLevel: 'error',
});
