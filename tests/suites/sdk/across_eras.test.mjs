// A legacy caller (TypeScript SDK 1.x) and servers that speak 2026-07-28 only (C-39).
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connect, every, http, text, tools, world } from './world.mjs';

test('without the gateway they cannot meet', { timeout: 30_000 }, async () => {
    await assert.rejects(connect(http(world.direct.new)));
});

for (const backend of ['new', 'paged']) {
    describe(`legacy caller, modern-only server "${backend}"`, { timeout: 60_000 }, () => {
        let client;
        before(async () => {
            client = await connect(http(`${world.url}/${backend}`));
        });
        after(() => client?.close());

        const call = (name, given = {}) => client.callTool({ name, arguments: given });

        test('G-45 C-25: every page arrives, under its own names', async () => {
            const listed = await tools(client);
            assert.ok(['test_simple_text', 'add_numbers', 'json_schema_2020_12_tool'].every(name => listed.has(name)));
            assert.ok([...listed.keys()].every(name => !name.includes('__')));
            const resources = await every(page => client.listResources(page), 'resources');
            assert.equal(resources.length, 3);
        });

        test('G-15: tools, structured results and tool errors', async () => {
            assert.equal(text(await call('test_simple_text')), 'This is a simple text response for testing.');
            const sum = await call('add_numbers', { a: 2, b: 40 });
            assert.deepEqual(sum.structuredContent, { sum: 42 });
            // TypeScript 1.x rejects stray members of newer revisions in empty results only; here they must be gone too.
            assert.equal(sum.resultType, undefined);
            const failed = await call('test_error_handling');
            assert.ok(failed.isError);
            assert.equal(text(failed), 'This tool intentionally returns an error for testing');
            const kinds = (await call('test_multiple_content_types')).content.map(item => item.type);
            assert.deepEqual(kinds, ['text', 'image', 'resource']);
        });

        test('C-16: an unknown tool is an error', async () => {
            await assert.rejects(call('no_such_tool'), { code: -32602 });
        });

        test('G-32: resources are read, unknown ones refused', async () => {
            const { contents } = await client.readResource({ uri: 'test://static-binary' });
            assert.ok(contents[0].blob.startsWith('iVBORw0KGgo'));
            const filled = await client.readResource({ uri: 'test://template/9/data' });
            assert.equal(JSON.parse(filled.contents[0].text).id, '9');
            await assert.rejects(client.readResource({ uri: 'test://nowhere' }), error => [-32002, -32602].includes(error.code));
        });

        test('G-33: prompts are listed and filled', async () => {
            const names = (await every(page => client.listPrompts(page), 'prompts')).map(prompt => prompt.name);
            assert.ok(names.includes('test_simple_prompt'));
            const filled = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'left', arg2: 'right' } });
            assert.match(filled.messages[0].content.text, /left[^]*right/);
        });

        test('G-16: a ping is answered with nothing in it', async () => {
            assert.deepEqual(await client.ping(), {});
        });
    });
}
