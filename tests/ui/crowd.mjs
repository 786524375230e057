// A server in front of an agent whose event stream has a large cluster in it: thousands of jobs, nodes and allocations,
// made of one real row each, and changes that go on. Everything else is the agent's.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request } from 'node:http';

/** Rows in a frame of the snapshot, as the agent sends them: about 32 kB. */
const FRAME_ROWS = 20;

export class Crowd {
  /** @param {import('./agent.mjs').Agent} agent  with a running job */
  static async start(agent, { jobs = 10_000, nodes = 5_000, allocs = 20_000 } = {}) {
    const crowd = new Crowd();
    const [alloc] = (await agent.get('/v1/allocations')).filter((row) => row.ClientStatus === 'running');
    const job = await agent.get(`/v1/job/${encodeURIComponent(alloc.JobID)}`);
    const node = await agent.get(`/v1/node/${alloc.NodeID}`);
    const whole = await agent.get(`/v1/allocation/${alloc.ID}`);
    delete whole.Job;
    crowd.agent = agent;
    crowd.index = 1_000_000;
    crowd.open = new Set();
    crowd.jobs = Array.from({ length: jobs }, (_, i) => ({ ...job, ID: `job-${String(i).padStart(5, '0')}`,
      Name: `job-${i}`, Type: i % 3 === 0 ? 'batch' : 'service', Status: i % 50 === 0 ? 'pending' : 'running' }));
    crowd.nodes = Array.from({ length: nodes }, (_, i) => ({ ...node, ID: randomUUID(), Name: `node-${String(i).padStart(4, '0')}`,
      Datacenter: `dc${1 + (i % 4)}`, NodeClass: ['', 'large', 'gpu'][i % 3], Status: i % 200 === 0 ? 'down' : 'ready' }));
    crowd.allocs = Array.from({ length: allocs }, (_, i) => ({ ...whole, ID: randomUUID(),
      JobID: crowd.jobs[i % jobs].ID, Name: `${crowd.jobs[i % jobs].ID}.web[${Math.floor(i / jobs)}]`,
      NodeID: crowd.nodes[i % nodes].ID, NodeName: crowd.nodes[i % nodes].Name }));
    crowd.server = createServer((asked, answer) => (asked.url.startsWith('/v1/event/stream') ? crowd.stream(answer)
      : crowd.pass(asked, answer)));
    await new Promise((done) => { crowd.server.listen(0, '127.0.0.1', done); });
    crowd.address = `http://127.0.0.1:${crowd.server.address().port}`;
    return crowd;
  }

  end() {
    clearInterval(this.timer);
    this.server.close();
    this.server.closeAllConnections();
  }

  pass(asked, answer) {
    const passed = request(new URL(asked.url, this.agent.address), { method: asked.method, headers: asked.headers }, (got) => {
      answer.writeHead(got.statusCode, got.headers);
      got.pipe(answer);
    });
    passed.on('error', () => answer.destroy());
    asked.pipe(passed);
  }

  frame(topic, rows, type) {
    return `${JSON.stringify({ Index: this.index, Events: rows.map((row) => ({ Topic: topic, Type: type, Key: row.ID,
      Namespace: row.Namespace ?? '', FilterKeys: null, Index: this.index, Payload: { [topic]: row } })) })}\n`;
  }

  async stream(answer) {
    answer.writeHead(200, { 'content-type': 'application/json' });
    const left = new AbortController();
    answer.on('close', () => left.abort());
    for (const [topic, rows] of [['Node', this.nodes], ['Job', this.jobs], ['Allocation', this.allocs]]) {
      for (let i = 0; i < rows.length && !left.signal.aborted; i += FRAME_ROWS) {
        if (!answer.write(this.frame(topic, rows.slice(i, i + FRAME_ROWS), 'Snapshot'))) {
          await once(answer, 'drain', { signal: left.signal }).catch(() => {});
        }
      }
    }
    answer.write(`${JSON.stringify({ Index: this.index, CaughtUp: true })}\n`);
    this.open.add(answer);
    answer.on('close', () => this.open.delete(answer));
  }

  /** Changes this many allocations a second from now on. */
  change(perSecond) {
    clearInterval(this.timer);
    let next = 0;
    const step = () => {
      for (let i = 0; i < perSecond / 20; i += 1) {
        const row = this.allocs[next % this.allocs.length];
        next += 1;
        this.index += 1;
        row.ClientStatus = row.ClientStatus === 'running' ? 'pending' : 'running';
        row.ModifyTime = Date.now() * 1e6;
        for (const answer of this.open) answer.write(this.frame('Allocation', [row], 'AllocationUpdated'));
      }
    };
    this.timer = setInterval(step, 50);
  }
}
