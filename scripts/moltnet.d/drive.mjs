// Uses a served diary with the SDK and the tools that bundle.mjs has made.
import { connect, createMoltNetTools } from './moltnet.mjs';
import assert from 'node:assert/strict';
const { MOLTNET_API_URL: apiUrl, CLIENT_ID: clientId, CLIENT_SECRET: clientSecret, SEED: seed, DIARY: diary } = process.env;
const agent = await connect({ apiUrl, clientId, clientSecret });
let failed = 0;
let passed = 0;
async function step(name, work) {
  try {
    const result = await work();
    passed += 1;
    return result;
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.message} ${JSON.stringify(error.validationErrors ?? '')}`);
    return undefined;
  }
}
await step('whoami', async () => { const w = await agent.agents?.whoami?.() ?? await agent.whoami?.(); assert.ok(w); });
await step('diaries.list', async () => assert.equal((await agent.diaries.list()).items[0].id, diary));
await step('diaries.get', async () => assert.equal((await agent.diaries.get(diary)).id, diary));
const one = await step('entries.create', () => agent.entries.create(diary, { title: 'One', content: 'The disk was full.', tags: ['a', 'b'], entryType: 'episodic', importance: 8 }));
await step('entries.get', async () => assert.equal((await agent.entries.get(one.id)).content, 'The disk was full.'));
await step('entries.list', async () => assert.equal((await agent.entries.list(diary, { tags: ['a'], limit: 5 })).items[0].id, one.id));
await step('entries.search', async () => assert.equal((await agent.entries.search({ diaryId: diary, query: 'disks' })).results[0].id, one.id));
const signed = await step('entries.createSigned', () => agent.entries.createSigned(diary, { title: 'S', content: 'signed by their SDK', tags: ['z', 'a'] }, seed));
await step('entries.verify', async () => { const v = await agent.entries.verify(signed.id); assert.equal(v.valid, true); assert.equal(v.signed, true); assert.ok(v.agentFingerprint); });
await step('entries.verify unsigned', async () => assert.equal((await agent.entries.verify(one.id)).signed, false));
await step('entries.update', async () => { const u = await agent.entries.update(one.id, { title: 'One again', tags: ['a'] }); assert.equal(u.title, 'One again'); });
await step('entries.update signed is 409', async () => { await assert.rejects(agent.entries.update(signed.id, { title: 'x' }), (e) => e.statusCode === 409); });
await step('entries.delete signed is 409', async () => { await assert.rejects(agent.entries.delete(signed.id), (e) => e.statusCode === 409); });
await step('diaries.tags', async () => assert.ok((await agent.diaries.tags(diary, {})).tags.length));
const p = await step('packs.preview', () => agent.packs.preview(diary, { packType: 'custom', params: {}, entries: [{ entryId: one.id, rank: 1 }] }));
const pack = await step('packs.create', () => agent.packs.create(diary, { packType: 'custom', params: {}, entries: [{ entryId: one.id, rank: 1 }] }));
await step('packs cid', async () => assert.equal(p.packCid, pack.packCid));
await step('packs.get', async () => assert.equal((await agent.packs.get(pack.packId, { expand: 'entries' })).entries.length, 1));
await step('packs.list', async () => assert.ok((await agent.packs.list({ diaryId: diary })).items.length));
await step('packs.update', async () => assert.equal((await agent.packs.update(pack.packId, { pinned: true })).pinned, true));
const rendered = await step('packs.render', () => agent.packs.render(pack.packId, { renderMethod: 'server:pack-to-docs-v1' }));
await step('packs.getLatestRendered', async () => assert.equal((await agent.packs.getLatestRendered(pack.packId)).id, rendered.id));
await step('packs.updateRendered', async () => assert.equal((await agent.packs.updateRendered(rendered.id, { pinned: true })).pinned, true));
await step('provenance', async () => assert.ok((await agent.packs.getProvenance(pack.packId, { depth: 2 })).nodes.length));
await step('provenance by cid', async () => assert.ok((await agent.packs.getProvenanceByCid(pack.packCid, { depth: 2 })).nodes.length));
await step('crypto.identity', async () => assert.ok((await agent.crypto.identity()).publicKey));
await step('signingRequests.list', async () => assert.ok((await agent.crypto.signingRequests.list({})).items.length));
await step('missing entry', async () => assert.rejects(agent.entries.get('66666666-6666-4666-8666-666666666666'), (e) => e.statusCode === 404 && /Diary entry not found/.test(e.message)));
await step('invalid entry', async () => assert.rejects(agent.entries.create(diary, { content: '' }), (e) => e.statusCode === 400 && e.validationErrors?.length > 0));
await step('entries.deleteMany', async () => { const r = await agent.entries.deleteMany({ ids: [signed.id, one.id] }); assert.deepEqual(r, { deleted: [one.id], skipped: [signed.id] }); });
// The twelve tools.
const tools = Object.fromEntries(createMoltNetTools({ getAgent: () => agent, getDiaryId: () => diary, getTeamId: () => null, getSessionErrors: () => [{ toolName: 'bash', toolCallId: '1', input: {}, error: 'x', timestamp: 0 }], clearSessionErrors() {} }).map((t) => [t.name, t]));
const call = async (name, args) => JSON.parse((await tools[name].execute('id', args)).content[0].text);
const made = await step('tool create', () => call('moltnet_create_entry', { title: 'T', content: 'from a tool', tags: ['scope:x'] }));
await step('tool list', async () => assert.equal((await call('moltnet_list_entries', {}))[0].id, made.id));
await step('tool list by ids', async () => assert.equal((await call('moltnet_list_entries', { entryIds: [made.id, signed.id] })).length, 2));
await step('tool get', async () => assert.equal((await call('moltnet_get_entry', { entryId: made.id })).content, 'from a tool'));
await step('tool search', async () => assert.equal((await call('moltnet_search_entries', { query: 'tool' }))[0].id, made.id));
await step('tool tags', async () => assert.ok((await call('moltnet_diary_tags', {})).total > 0));
const tp = await step('tool pack', () => call('moltnet_pack_create', { entries: [{ entryId: made.id, rank: 1 }] }));
await step('tool pack get', async () => assert.equal((await call('moltnet_pack_get', { packId: tp.packId, expandEntries: true })).entries[0].entry.id, made.id));
await step('tool provenance', async () => assert.equal((await call('moltnet_pack_provenance', { packId: tp.packId })).counts.nodes, 2));
await step('tool render preview', async () => assert.match((await call('moltnet_pack_render', { packId: tp.packId, preview: true })).renderedMarkdown, /^# Rendered Pack/));
const tr = await step('tool render', () => call('moltnet_pack_render', { packId: tp.packId }));
await step('tool rendered list', async () => assert.ok((await call('moltnet_rendered_pack_list', {})).items.length));
await step('tool rendered get', async () => assert.equal((await call('moltnet_rendered_pack_get', { renderedPackId: tr.id })).id, tr.id));
await step('tool review', async () => assert.equal((await call('moltnet_review_session_errors', {})).count, 1));
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
