// Event sinks on the page, with receivers in this process: progress that is live, failures, positions, and text that stays text.

import assert from 'node:assert/strict';
import { createServer as createHttp } from 'node:http';
import { createServer } from 'node:net';

import { until } from '../agent.mjs';
import { MARKUP, isAccessible, sees, visit } from '../look.mjs';

/** A server of this process on a free port. */
const listen = (server) => new Promise((done) => {
  server.listen(0, '127.0.0.1', () => done(server.address().port));
});

/** A webhook that can be told to refuse. */
async function webhook() {
  const inbox = { bodies: [], refuses: false };
  const server = createHttp((request, response) => {
    let body = '';
    request.on('data', (piece) => { body += piece; });
    request.on('end', () => {
      if (!inbox.refuses) inbox.bodies.push(body);
      response.writeHead(inbox.refuses ? 503 : 204).end();
    });
  });
  const port = await listen(server);
  return { inbox, address: `http://127.0.0.1:${port}/`, close: () => server.close(() => {}) };
}

const pool = (agent, name) => agent.ask('PUT', '/v1/node/pools', { Name: name });

export const sinks = {
  async 'an event sink is made on its page, which shows live what it does'({ page, agent, axe }) {
    const receiver = await webhook();
    try {
      await visit(page, agent, '/sinks');
      await page.getByRole('link', { name: 'New event sink' }).click();
      await page.getByLabel('Name', { exact: true }).fill('hook');
      await page.getByLabel('Address').fill(receiver.address);
      await page.getByLabel('Topics').fill('NodePool\nJob:none');
      await page.getByLabel('Key of signatures').fill('s3cret');
      await page.getByLabel('Headers').fill('Authorization: planted');
      await isAccessible(page, axe, '/sinks/new');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.locator('h1', { hasText: 'hook' }).waitFor();
      assert.deepEqual((await agent.get('/v1/event-sink/hook')).Topics, { Job: ['none'], NodePool: [] });
      await page.evaluate(() => { window.same = true; });

      await pool(agent, 'first');
      await page.locator('h1', { hasText: 'delivering' }).waitFor();
      await sees(page, '1 event');
      receiver.inbox.refuses = true;
      await pool(agent, 'second');
      await page.locator('h1', { hasText: 'failing' }).waitFor();
      await sees(page, 'the receiver answered 503');
      receiver.inbox.refuses = false;
      await sees(page, '2 events');
      await sees(page, '0 entries');
      assert.equal(await page.evaluate(() => window.same), true, 'without a reload');

      // The secrets that the server has are kept: nothing of them is on the page.
      await page.getByLabel('Filter').fill('Key != "third"');
      await page.getByRole('button', { name: 'Save' }).click();
      await until('the filter', async () => (await agent.get('/v1/event-sink/hook')).Filter === 'Key != "third"');
      const { Secret, Headers } = await agent.get('/v1/event-sink/hook');
      assert.deepEqual([Secret, Headers], ['redacted', { Authorization: 'redacted' }]);
      await pool(agent, 'third');
      await pool(agent, 'fourth');
      await until('the fourth', () => receiver.inbox.bodies.some((body) => body.includes('fourth')));
      assert.ok(!receiver.inbox.bodies.join().includes('"third"'));
      await isAccessible(page, axe, '/sinks/of/hook');

      const count = receiver.inbox.bodies.length;
      await page.getByLabel('Index').fill('1');
      await page.getByRole('button', { name: 'Set', exact: true }).click();
      await page.getByRole('button', { name: 'Deliver again what came after #1' }).click();
      await until('the first again', () => receiver.inbox.bodies.slice(count).some((body) => body.includes('first')));
      await visit(page, agent, '/sinks');
      await page.getByRole('row', { name: /hook delivering webhook/ }).waitFor();
      await isAccessible(page, axe, '/sinks');
      await page.getByRole('link', { name: 'hook' }).click();
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
      await page.getByRole('button', { name: 'Delete the event sink' }).click();
      await page.waitForURL(/\/sinks$/);
      await sees(page, 'No event sink is registered.');
    } finally {
      receiver.close();
    }
  },

  async 'two edits of an event sink: the second one sees the conflict'({ page, agent }) {
    const sink = { Type: 'kafka', Address: 'kafka://127.0.0.1:1', Subject: 'events', PartitionKey: 'job' };
    await agent.ask('PUT', '/v1/event-sink/bus', sink);
    await visit(page, agent, '/sinks/of/bus');
    await until('its fields', async () => (await page.getByLabel('Topic of Kafka').inputValue()) === 'events');
    assert.equal(await page.getByLabel('Key of messages').inputValue(), 'job');
    await page.getByLabel('Topic of Kafka').fill('mine');
    await agent.ask('PUT', '/v1/event-sink/bus', { ...sink, Subject: 'theirs' });
    await sees(page, 'Conflict.');
    await page.getByRole('button', { name: 'Take theirs' }).click();
    assert.equal(await page.getByLabel('Topic of Kafka').inputValue(), 'theirs');
    await page.getByLabel('Type').selectOption('file');
    await page.getByLabel('Address').fill('events.jsonl');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('server.event_sink_dir').first().waitFor();
    await agent.ask('DELETE', '/v1/event-sink/bus');
    await sees(page, 'There is no event sink of this name.');
  },

  async 'names, filters, topics and errors of event sinks with markup stay text'({ page, agent }) {
    // A server of NATS that refuses with markup: its words are the last error of the sink.
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.write('INFO {}\r\n');
      socket.once('data', () => socket.write(`-ERR '${MARKUP}'\r\n`));
    });
    const port = await listen(server);
    try {
      await agent.ask('PUT', '/v1/event-sink/markup', { Type: 'nats', Address: `nats://127.0.0.1:${port}`, Subject: 'a',
        Topics: { Job: [MARKUP], NodePool: [] }, Filter: `Key != \`${MARKUP}\``, Position: 1 });
      await pool(agent, 'of-markup');
      await until('its error', async () => (await agent.get('/v1/event-sink/markup')).LastError.includes('onerror'));
      for (const path of ['/sinks', '/sinks/of/markup', `/sinks/of/${encodeURIComponent(MARKUP)}`, '/events', '/audit']) {
        await visit(page, agent, path);
        if (path.startsWith('/sinks')) await sees(page, 'onerror');
        assert.equal(await page.evaluate(() => window.broken), undefined, path);
        assert.equal(await page.locator('main img, main script').count(), 0, path);
      }
      await visit(page, agent, '/sinks/new');
      await page.getByLabel('Name', { exact: true }).fill(MARKUP);
      await page.getByLabel('Address').fill(`http://${MARKUP}`);
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('invalid event sink').waitFor();
      assert.equal(await page.evaluate(() => window.broken), undefined);
      assert.equal(await page.locator('main img, main script').count(), 0);
      await agent.ask('DELETE', '/v1/event-sink/markup');
    } finally {
      server.close();
    }
  },
};
