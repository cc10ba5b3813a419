// The TypeScript SDK 1.x against the merged catalog, over HTTP and over stdio.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connect, eventually, every, http, stdio, text, tools, world } from './world.mjs';

const oneOfEach = [
    'echo', 'read_text_file', 'read_graph', 'sequentialthinking', 'convert_time', 'git_status',
    'test_simple_text', 'old__test_simple_text', 'new__test_simple_text', 'paged__test_simple_text'
];

for (const [way, transport] of Object.entries({ http: http(world.url), stdio })) {
    describe(`TypeScript SDK over ${way}`, { timeout: 90_000 }, () => {
        let client;
        before(async () => {
            client = await connect(transport);
            const joined = await eventually(async () => {
                const listed = await tools(client);
                return oneOfEach.every(name => listed.has(name));
            });
            assert.ok(joined, 'every backend joins the catalog');
        });
        after(() => client?.close());

        const call = (name, given = {}) => client.callTool({ name, arguments: given });

        test('G-30 G-33: capabilities are merged', () => {
            const { tools: t, resources, prompts, completions } = client.getServerCapabilities();
            assert.ok(t && resources && prompts && completions);
        });

        test('G-43: one list holds the tools of every server, and schemas survive', async () => {
            const listed = await tools(client);
            assert.ok(oneOfEach.every(name => listed.has(name)));
            assert.deepEqual(listed.get('old__add_numbers').outputSchema.properties, { sum: { type: 'number' } });
        });

        test('G-47 C-37: colliding names reach their own backend', async () => {
            assert.equal(text(await call('test_who')), 'conformance_server.py');
            assert.equal(text(await call('old__test_who')), 'conformance_ts1.mjs');
            assert.equal(text(await call('new__test_who')), 'conformance_ts2.mjs');
        });

        test('G-15: real servers answer', async () => {
            assert.equal(text(await call('echo', { message: `over ${way}` })), `Echo: over ${way}`);
            const arguments_ = { source_timezone: 'Asia/Kolkata', time: '12:00', target_timezone: 'Asia/Tokyo' };
            assert.equal(JSON.parse(text(await call('convert_time', arguments_))).time_difference, '+3.5h');
            assert.match(text(await call('git_status', { repo_path: world.repository })), /On branch trunk[^]*untracked\.txt/);
            assert.equal(text(await call('read_text_file', { path: `${world.files}/note.txt` })), 'written by the test\n');
            const thought = { thought: 'one', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 };
            assert.equal((await call('sequentialthinking', thought)).structuredContent.thoughtNumber, 1);
        });

        test('G-15: the memory graph keeps what it is told', async () => {
            const entity = { name: `entity-ts-${way}-${process.pid}`, entityType: 'test', observations: ['seen'] };
            await call('create_entities', { entities: [entity] });
            const found = await call('search_nodes', { query: entity.name });
            assert.deepEqual(found.structuredContent.entities, [entity]);
        });

        test('G-15: structured content and tool errors are results', async () => {
            assert.deepEqual((await call('add_numbers', { a: 2, b: 40 })).structuredContent, { sum: 42 });
            const refused = await call('read_text_file', { path: '/etc/hostname' });
            assert.ok(refused.isError);
            assert.match(text(refused), /Access denied/);
        });

        test('C-16: an unknown tool is refused', async () => {
            await assert.rejects(call('no_such_tool'), { code: -32602 });
        });

        test('G-32: resources and templates are listed and read', async () => {
            const uris = (await every(page => client.listResources(page), 'resources')).map(resource => resource.uri);
            assert.ok(['memory://knowledge-graph', 'test://static-text'].every(uri => uris.includes(uri)));
            const templates = await every(page => client.listResourceTemplates(page), 'resourceTemplates');
            assert.ok(templates.some(({ uriTemplate }) => uriTemplate === 'test://template/{id}/data'));
            const { contents } = await client.readResource({ uri: 'test://template/42/data' });
            assert.equal(JSON.parse(contents[0].text).id, '42');
            const dynamic = await client.readResource({ uri: 'demo://resource/dynamic/text/7' });
            assert.match(dynamic.contents[0].text, /7/);
            await assert.rejects(client.readResource({ uri: 'nowhere://at/all' }), { code: -32002 });
        });

        test('G-33: prompts are listed, filled and completed', async () => {
            const names = (await every(page => client.listPrompts(page), 'prompts')).map(prompt => prompt.name);
            assert.ok(['args-prompt', 'test_simple_prompt'].every(name => names.includes(name)));
            const filled = await client.getPrompt({ name: 'args-prompt', arguments: { city: 'Trondheim' } });
            assert.match(filled.messages[0].content.text, /Trondheim/);
            const { completion } = await client.complete({
                ref: { type: 'ref/prompt', name: 'completable-prompt' },
                argument: { name: 'department', value: 'E' }
            });
            assert.deepEqual(completion.values, ['Engineering']);
        });

        test('G-16: a ping is answered', async () => {
            assert.deepEqual(await client.ping(), {});
        });
    });
}
