// TypeScript SDK 1.x callers for the tests, and small helpers. It speaks 2025-11-25 at most.
import { readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

export const world = JSON.parse(readFileSync(process.env.SENTINEL_WORLD, 'utf8'));

export const http = url => () => new StreamableHTTPClientTransport(new URL(url));
export const stdio = () =>
    new StdioClientTransport({ command: world.binary, args: ['stdio', '--config', world.config], stderr: 'ignore' });

export async function connect(transport) {
    const client = new Client({ name: 'typescript-sdk', version: '1.0.0' });
    await client.connect(transport());
    return client;
}

/** All items of a list, page by page. */
export async function every(list, field) {
    const items = [];
    let cursor;
    for (let page = 0; page < 100; page++) {
        const result = await list(cursor === undefined ? {} : { cursor });
        items.push(...result[field]);
        cursor = result.nextCursor;
        if (cursor === undefined) return items;
    }
    throw new Error(`${field} never end`);
}

export const tools = async client => new Map((await every(page => client.listTools(page), 'tools')).map(tool => [tool.name, tool]));

/** Waits for a state: backends may come after the first answer. */
export async function eventually(state, limitMs = 30_000) {
    const end = Date.now() + limitMs;
    for (;;) {
        const found = await state();
        if (found || Date.now() > end) return found;
        await new Promise(done => setTimeout(done, 100));
    }
}

export const text = result => result.content.filter(item => item.type === 'text').map(item => item.text).join('\n');
