// Serves the page from `api/ui/` and passes every other request on to an agent: to look at an edited file without
// building the program.
// Usage: node tests/ui/serve.mjs AGENT_ADDRESS [PORT]

import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { connect } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const agent = new URL(process.argv[2] ?? 'http://127.0.0.1:4646');
const port = Number(process.argv[3] ?? 4680);
const folder = fileURLToPath(new URL('../../api/ui/', import.meta.url));
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.html': 'text/html' };
/** The policy of the agent, so that what works here works there. */
const policy = (await fetch(new URL('/ui/', agent))).headers.get('content-security-policy') ?? '';

function file(path) {
  try {
    return { bytes: readFileSync(join(folder, normalize(path))), type: TYPES[extname(path)] ?? 'text/html' };
  } catch {
    return { bytes: readFileSync(join(folder, 'index.html')), type: 'text/html' };
  }
}

const server = createServer((asked, answer) => {
  const path = new URL(asked.url, agent).pathname;
  if (path.startsWith('/ui/') && path !== '/ui/settings.json') {
    const { bytes, type } = file(path.slice('/ui/'.length));
    answer.writeHead(200, { 'content-type': `${type}; charset=utf-8`, 'content-security-policy': policy,
      'cache-control': 'no-store' }).end(bytes);
    return;
  }
  const passed = request(new URL(asked.url, agent), { method: asked.method, headers: { ...asked.headers,
    host: agent.host } }, (got) => {
    answer.writeHead(got.statusCode, got.headers);
    got.pipe(answer);
  });
  passed.on('error', () => answer.destroy());
  answer.on('close', () => passed.destroy());
  asked.pipe(passed);
});
server.on('upgrade', (asked, socket) => {
  const through = connect(Number(agent.port), agent.hostname, () => {
    const headers = Object.entries({ ...asked.headers, host: agent.host, origin: agent.origin });
    through.write(`GET ${asked.url} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n`);
    socket.pipe(through).pipe(socket);
  });
  through.on('error', () => socket.destroy());
  socket.on('error', () => through.destroy());
});
server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/ui/ with the agent ${agent.origin}`));
