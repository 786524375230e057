// A real agent in a temporary folder, for the stories: started, killed, started again; and requests to it.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Deployments that end soon. */
const UPDATE = {
  MaxParallel: 2, HealthCheck: 'task_states', MinHealthyTime: 1e8, HealthyDeadline: 30e9, ProgressDeadline: 60e9,
};

/** Free ports of this machine. */
async function ports(count) {
  const servers = await Promise.all(Array.from({ length: count }, () => new Promise((done) => {
    const server = createServer().listen(0, '127.0.0.1', () => done(server));
  })));
  const found = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return found;
}

/** Asks until the answer is the wanted one: agents and schedulers take their time. */
export async function until(what, ask, limit = 20_000) {
  const end = Date.now() + limit;
  let last;
  for (;;) {
    try {
      last = await ask();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`${what}: not within ${limit} ms; last: ${last}`);
    await new Promise((done) => { setTimeout(done, 50); });
  }
}

export class Agent {
  static async start({ acl = false } = {}) {
    const agent = new Agent();
    agent.folder = mkdtempSync(join(tmpdir(), 'songline-ui-'));
    const [http, rpc, serf] = await ports(3);
    agent.address = `http://127.0.0.1:${http}`;
    agent.token = '';
    writeFileSync(join(agent.folder, 'agent.hcl'), `
      data_dir = "${agent.folder}/data"
      bind_addr = "127.0.0.1"
      name = "quokka"
      ports { http = ${http} rpc = ${rpc} serf = ${serf} }
      server { enabled = true bootstrap_expect = 1 }
      client { enabled = true servers = ["127.0.0.1:${rpc}"] }
      plugin "raw_exec" { config { enabled = true } }
      acl { enabled = ${acl} }
      ui {
        label { text = "staging" background_color = "#7a4b00" text_color = "#ffffff" }
        consul { ui_url = "https://consul.example/ui" }
      }`);
    await agent.begin();
    return agent;
  }

  async begin() {
    this.child = spawn(process.env.SONGLINE_BIN, ['agent', '-config', join(this.folder, 'agent.hcl')],
      { stdio: 'ignore' });
    await until('a leader', async () => (await (await fetch(`${this.address}/v1/status/leader`)).text()).length > 4);
  }

  kill(signal = 'SIGKILL') {
    return new Promise((done) => {
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        done();
        return;
      }
      this.child.once('exit', done);
      this.child.kill(signal);
    });
  }

  async end() {
    const jobs = await this.get('/v1/jobs?namespace=*').catch(() => []);
    for (const job of jobs) await this.ask('DELETE',
      `/v1/job/${encodeURIComponent(job.ID)}?namespace=${job.Namespace}`).catch(() => {});
    await until('the end of all tasks', async () => (await this.get('/v1/allocations?namespace=*'))
      .every((alloc) => alloc.ClientStatus !== 'running')).catch(() => {});
    await this.kill('SIGINT');
    rmSync(this.folder, { recursive: true, force: true });
  }

  async ask(method, path, body) {
    const response = await fetch(this.address + path, {
      method, body: body === undefined ? undefined : JSON.stringify(body),
        headers: this.token ? { 'X-Nomad-Token': this.token } : {},
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === '' ? null : JSON.parse(text);
  }

  get(path) {
    return this.ask('GET', path);
  }

  /** Registers a job of one task that runs this shell command. */
  run(ID, command, { count = 1, type = 'service', cpu = 20, meta = null, namespace = 'default',
    networks = null, services = null, ...more } = {}) {
    return this.ask('POST', '/v1/jobs', { Job: {
      ID, Name: ID, Namespace: namespace, Type: type, Datacenters: ['dc1'], Meta: meta,
      Update: type === 'service' ? UPDATE : null, ...more,
      TaskGroups: [{ Name: 'web', Count: count, RestartPolicy: { Attempts: 0, Mode: 'fail', Interval: 60e9,
        Delay: 1e9 },
        ReschedulePolicy: { Attempts: 0, Unlimited: false }, Networks: networks, Services: services,
        Tasks: [{ Name: 'server', Driver: 'raw_exec', KillTimeout: 1e9, Config: { command: '/bin/sh',
          args: ['-c', command] },
          Resources: { CPU: cpu, MemoryMB: 16 } }] }] } });
  }

  /** An allocation of a job once it has this status. */
  alloc(job, status) {
    return until(`an allocation of ${job} that is ${status}`, async () =>
      (await this.get(`/v1/job/${encodeURIComponent(job)}/allocations`))
      .find((alloc) => alloc.ClientStatus === status));
  }
}
