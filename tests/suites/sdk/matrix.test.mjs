// The translation table (C-39) with the TypeScript SDK 1.x as the caller: it speaks 2025-11-25 at most, so the pairings with a
// legacy caller, over HTTP and over stdio. The expected columns are written by hand, none was recorded from a run.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    LoggingMessageNotificationSchema,
    ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { eventually, every, text, tools, world } from './world.mjs';

const LEGACY = '2025-11-25';
const HEARD_WITHIN_MS = 5_000;
const ways = {
    http: backend => new StreamableHTTPClientTransport(new URL(`${world.matrix.url}/${backend}`)),
    stdio: backend =>
        new StdioClientTransport({ command: world.binary, args: ['stdio', '--config', world.matrix[backend]], stderr: 'ignore' }),
};

/** A caller that can be asked everything, and notes what it was told. */
async function matrixCaller(transport) {
    const capabilities = { elicitation: {}, sampling: {}, roots: { listChanged: true } };
    const client = new Client({ name: 'typescript-sdk', version: '1.0.0' }, { capabilities });
    const noted = { asked: [], lines: [], changed: 0 };
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
        noted.asked.push(params.message);
        return { action: 'accept', content: { username: 'ada', email: 'ada@example.com' } };
    });
    client.setRequestHandler(CreateMessageRequestSchema, async () => ({
        role: 'assistant',
        content: { type: 'text', text: 'four' },
        model: 'm',
    }));
    client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: 'file:///work' }] }));
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void noted.lines.push(params.data));
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void (noted.changed += 1));
    await client.connect(transport);
    return { client, noted, transport, call: (name, given = {}) => client.callTool({ name, arguments: given }) };
}

const code = promise => promise.then(() => 'no error', error => error.code);

async function elicitation({ noted, call }) {
    noted.asked.length = 0;
    const said = text(await call('test_elicitation', { message: 'Who?' }));
    const signed = noted.asked.map(asked => asked.startsWith('[') && asked.endsWith('] Who?'));
    return `${said.includes('accept') && said.includes('ada')}, signed ${signed}`;
}

async function progress({ client }) {
    const seen = [];
    const options = { onprogress: ({ progress: value }) => void seen.push(value) };
    await client.callTool({ name: 'test_tool_with_progress', arguments: {} }, undefined, options);
    return seen;
}

async function logging({ client, noted, call }) {
    await client.setLoggingLevel('info');
    noted.lines.length = 0;
    await call('test_tool_with_logging');
    return noted.lines.length;
}

async function listChanged({ noted, call }) {
    noted.changed = 0;
    await call('test_trigger_tool_change');
    return eventually(() => noted.changed > 0, HEARD_WITHIN_MS);
}

/** Members that only the other era has. */
async function strangers({ client }) {
    const listed = await client.listTools();
    const result = await client.callTool({ name: 'test_simple_text', arguments: {} });
    const found = ['resultType', 'ttlMs', 'cacheScope'].filter(name => name in listed || name in result);
    return [...found, ...(listed.tools.some(tool => tool.execution) ? ['execution'] : [])];
}

async function completion({ client }) {
    const ref = { type: 'ref/prompt', name: 'test_prompt_with_arguments' };
    return (await client.complete({ ref, argument: { name: 'arg1', value: 'test-o' } })).completion.values;
}

// Feature: [how to look, what LL and LM see].
const table = {
    'handshake: the gateway introduces itself': [({ client }) => client.getServerVersion().name, ['sentinel-gateway', 'sentinel-gateway']],
    'handshake: no tasks are offered': [({ client }) => client.getServerCapabilities().tasks, [undefined, undefined]],
    'no members of the other era': [strangers, [[], []]],
    'tools/call': [async ({ call }) => text(await call('test_simple_text')).slice(0, 16), ['This is a simple', 'This is a simple']],
    'tools/call: structured': [async ({ call }) => (await call('add_numbers', { a: 2, b: 40 })).structuredContent, [{ sum: 42 }, { sum: 42 }]],
    'tools/call: a tool that runs as a task': [
        async ({ call }) => text(await call('slow_compute', { seconds: 0.2, label: 'it' })),
        ['Computed it', 'Computed it'],
    ],
    elicitation: [elicitation, ['true, signed true', 'true, signed true']],
    sampling: [async ({ call }) => text(await call('test_sampling', { prompt: '2+2' })), ['LLM response: four', 'LLM response: four']],
    roots: [async ({ call }) => text(await call('test_input_required_result_list_roots')), ['1 roots', '1 roots']],
    progress: [progress, [[0, 50, 100], [0, 50, 100]]],
    logging: [logging, [3, 3]],
    list_changed: [listChanged, [true, true]],
    ping: [({ client }) => client.ping(), [{}, {}]],
    'resources/read': [
        async ({ client }) => (await client.readResource({ uri: 'test://static-text' })).contents[0].text.slice(0, 19),
        ['This is the content', 'This is the content'],
    ],
    'errors: resource not found': [({ client }) => code(client.readResource({ uri: 'test://nowhere' })), [-32002, -32602]],
    'errors: unknown tool': [({ call }) => code(call('no_such_tool')), [-32602, -32602]],
    completion: [completion, [['test-one'], ['test-one']]],
    'prompts/get': [
        async ({ client }) => (await client.getPrompt({ name: 'test_simple_prompt' })).messages[0].content.text.slice(0, 16),
        ['This is a simple', 'This is a simple'],
    ],
    pagination: [async ({ client }) => (await every(page => client.listResources(page), 'resources')).length, [3, 3]],
};

for (const way of Object.keys(ways)) {
    for (const [column, backend] of ['l', 'm'].entries()) {
        describe(`${way}, ${column === 0 ? 'LL' : 'LM'}`, { timeout: 90_000 }, () => {
            let caller;
            before(async () => {
                caller = await matrixCaller(ways[way](backend));
                // Over stdio the gateway answers before its backend is there; a call waits for it.
                assert.ok(await eventually(async () => (await tools(caller.client)).has('test_simple_text')));
                await caller.call('test_simple_text');
            });
            after(() => caller?.client.close());
            // Only this transport tells.
            if (way === 'http') {
                test("C-39: handshake: the caller's own revision", () => assert.equal(caller.transport.protocolVersion, LEGACY));
            }
            for (const [feature, [look, expected]] of Object.entries(table)) {
                test(`C-39: ${feature}`, async () => assert.deepEqual(await look(caller), expected[column]));
            }
        });
    }
}
