// What the page promises, each as one story against a real agent: rows as the API has them, without a reload; the past;
// reconnection; rights; text that stays text; no finding of axe.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { until } from './agent.mjs';
import { Provider } from './provider.mjs';

const LOOP = 'i=0; while true; do i=$((i+1)); echo line $i; sleep 0.2; done';
const MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>';

/** Opens a page and waits until it follows the cluster. */
async function visit(page, agent, path) {
  await page.goto(`${agent.address}/ui${path}`);
  await page.locator('.link-state', { hasText: 'live' }).waitFor();
}

/** Waits for an element with this text in the main part. */
const sees = (page, text) => page.locator('main').getByText(text, { exact: false }).first().waitFor();

/** Fails with every finding of axe on the page, in the light and in the dark. */
async function isAccessible(page, axe, name) {
  const source = readFileSync(axe, 'utf8');
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.evaluate(source);
    const { violations } = await page.evaluate(() => window.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
    const words = violations.map(({ id,
      nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.any[0]?.message ?? ''}`).join(' | ')}`);
    assert.deepEqual(words, [], `${name}, ${colorScheme}`);
  }
}

export const open = {
  async 'the root leads to the page, which allows its own files only'({ page, agent }) {
    const response = await page.goto(`${agent.address}/`);
    assert.equal(new URL(page.url()).pathname, '/ui/');
    const policy = response.headers()['content-security-policy'];
    assert.match(policy, /default-src 'none'; script-src 'self'/);
    assert.ok(!policy.includes('unsafe'));
    const jobs = await fetch(`${agent.address}/v1/jobs`);
    assert.equal(jobs.headers.get('content-security-policy'), null, 'answers of the API stay as they are');
    await sees(page, 'Overview');
  },

  async 'the label and the links of the configuration are shown'({ page, agent }) {
    await visit(page, agent, '/');
    const label = page.locator('.side .label', { hasText: 'staging' });
    await label.waitFor();
    assert.equal(await label.evaluate((element) => getComputedStyle(element).backgroundColor), 'rgb(122, 75, 0)');
    assert.equal(await page.getByRole('link', { name: 'Consul' }).getAttribute('href'), 'https://consul.example/ui');
  },

  async 'a job that is written appears without a reload, and its allocations run'({ page, agent }) {
    await visit(page, agent, '/jobs');
    await page.evaluate(() => { window.same = true; });
    const started = Date.now();
    await agent.run('storefront', LOOP, { count: 2, meta: { owner: 'web team' } });
    await page.getByRole('link', { name: 'storefront' }).waitFor();
    console.log(`     a written job is on screen after ${Date.now() - started} ms`);
    await page.getByRole('row', { name: /storefront/ }).getByText('2/2').waitFor();
    assert.equal(await page.evaluate(() => window.same), true);
  },

  async 'a value that changes before its component listens is drawn'({ page, agent }) {
    await visit(page, agent, '/');
    const drawn = await page.evaluate(async () => {
      const { html, render, signal, useSignal } = await import('/ui/js/lib.js');
      const state = signal('loading');
      const State = () => html`<output>${useSignal(state)}</output>`;
      const root = document.createElement('div');
      render(html`<${State} />`, root);
      state.value = 'live';
      for (let frames = 0; frames < 30 && root.textContent !== 'live'; frames += 1) {
        await new Promise((done) => { requestAnimationFrame(() => setTimeout(done, 0)); });
      }
      return root.textContent;
    });
    assert.equal(drawn, 'live');
  },

  async 'the job page shows what the API has'({ page, agent }) {
    const alloc = await agent.alloc('storefront', 'running');
    await visit(page, agent, '/jobs/storefront@default');
    await sees(page, alloc.ID.slice(0, 8));
    await sees(page, 'web team');
    await page.getByRole('link', { name: 'History' }).click();
    await sees(page, 'JobRegister');
    await page.getByRole('link', { name: 'Evaluations', exact: true }).last().click();
    await sees(page, 'the job was registered');
  },

  async 'a count is changed on the page, and the version shows the difference'({ page, agent }) {
    // A job is not scaled while its deployment runs.
    await until('the end of the deployment', async () =>
      (await agent.get('/v1/job/storefront/deployment')).Status === 'successful');
    await visit(page, agent, '/jobs/storefront@default');
    await page.getByRole('button', { name: 'One more' }).click();
    await until('three allocations', async () => (await agent.get('/v1/job/storefront/allocations')).length === 3);
    await page.getByRole('link', { name: 'Versions' }).click();
    await sees(page, 'Count: 2 → 3');
  },

  async 'an edited job file is planned, then run'({ page, agent }) {
    await visit(page, agent, '/jobs/run');
    const text = page.getByLabel('Job file');
    const file = (await text.inputValue()).replace('job "example"', 'job "from-the-page"');
    await text.fill(file);
    assert.equal(await page.getByRole('button', { name: 'Run this plan' }).isDisabled(), true);
    await page.getByRole('button', { name: 'Plan', exact: true }).click();
    await sees(page, 'place 1');
    await page.getByRole('button', { name: 'Run this plan' }).click();
    await page.waitForURL(/from-the-page/);
    await agent.alloc('from-the-page', 'running');
    await page.getByRole('link', { name: 'Definition' }).click();
    await until('the file as it was written', async () => (await page.getByLabel('Job file').inputValue()) === file);
  },

  async 'a job without room says why in words'({ page, agent }) {
    await agent.run('too-big', LOOP, { cpu: 9_000_000 });
    await visit(page, agent, '/jobs/too-big@default');
    await sees(page, 'could not be placed');
    await sees(page, 'too little cpu');
    await visit(page, agent, '/');
    await sees(page, 'too-big');
  },

  async 'the allocation page explains, follows logs and lists files'({ page, agent }) {
    const alloc = await agent.alloc('storefront', 'running');
    await visit(page, agent, `/allocations/${alloc.ID}`);
    await sees(page, 'is running on node quokka');
    await page.getByRole('link', { name: 'Explain', exact: true }).click();
    await sees(page, 'registered job storefront');
    await page.getByRole('link', { name: 'Logs' }).click();
    await sees(page, /line \d+/);
    const log = page.getByRole('log');
    const before = (await log.textContent()).length;
    await until('more lines', async () => (await log.textContent()).length > before);
    await page.getByLabel('Search the log').fill('line 1');
    await log.locator('mark').first().waitFor();
    await page.getByRole('link', { name: 'Files' }).click();
    await page.getByRole('button', { name: /^server\// }).click();
    await page.getByRole('button', { name: /^local\// }).waitFor();
  },

  async 'a command runs in a task, in a terminal, and ends with its code'({ page, agent }) {
    const alloc = await agent.alloc('storefront', 'running');
    await visit(page, agent, `/allocations/${alloc.ID}/exec`);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.locator('.xterm-rows', { hasText: /[#$]/ }).waitFor();
    // Colours and widths of cells are styles: the policy of the page must not refuse them.
    await page.keyboard.type("printf '\\033[38;2;200;90;0m%s\\033[0m\\n' $((40+2)) && exit 7\n");
    await page.locator('.xterm-rows', { hasText: /^42/m }).or(page.getByText('ended with code 7')).first().waitFor();
    await sees(page, 'The command ended with code 7.');
    assert.match(await page.locator('.xterm-rows').textContent(), /42/);
    await page.getByRole('button', { name: 'Run again' }).click();
    await page.locator('.xterm-rows', { hasText: /^[^4]*[#$]/ }).waitFor();
    await page.keyboard.press('Shift+Escape');
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'exec-end');
    await page.keyboard.press('Enter');
    await sees(page, 'The session was ended here.');
  },

  async 'CPU and memory of an allocation are drawn over time'({ page, agent }) {
    const alloc = await agent.alloc('storefront', 'running');
    await visit(page, agent, `/allocations/${alloc.ID}`);
    await page.locator('.chart canvas').first().waitFor();
    await page.getByRole('img', { name: /^Memory: memory [\d.]+ [KM]iB of 16.0 MiB/ }).waitFor();
  },

  async 'a task gets a signal'({ page, agent }) {
    await agent.run('listener', 'trap "echo heard" USR1; while true; do sleep 0.1; done');
    const alloc = await agent.alloc('listener', 'running');
    await visit(page, agent, `/allocations/${alloc.ID}`);
    await page.getByLabel('Signal for server').selectOption('SIGUSR1');
    await page.getByRole('button', { name: 'Signal', exact: true }).click();
    await page.getByRole('button', { name: 'Send SIGUSR1' }).click();
    await sees(page, 'Signaling');
    await page.getByRole('link', { name: 'Logs' }).click();
    await sees(page, 'heard');
  },

  async 'a group is scaled to a count, and the page says who did it'({ page, agent }) {
    await until('the end of the deployment', async () =>
      (await agent.get('/v1/job/storefront/deployment')).Status === 'successful');
    await visit(page, agent, '/jobs/storefront@default');
    await page.getByLabel('New count of web').fill('2');
    await page.getByRole('button', { name: 'Set', exact: true }).click();
    await until('the count', async () => (await agent.get('/v1/job/storefront')).TaskGroups[0].Count === 2);
    await page.getByText('scaling events').click();
    await sees(page, '3 → 2 scaled on the web page');
  },

  async 'a parameterized job is dispatched with what it asks for'({ page, agent }) {
    await agent.run('report', 'echo $NOMAD_META_month', { type: 'batch',
      ParameterizedJob: { Payload: 'optional', MetaRequired: ['month'], MetaOptional: ['format'] } });
    await visit(page, agent, '/jobs/report@default');
    await sees(page, 'month must have a value');
    assert.equal(await page.getByRole('button', { name: 'Dispatch' }).isDisabled(), true);
    await page.getByLabel('month (required)').fill('May');
    await page.getByLabel('Payload').fill('a text');
    await page.getByRole('button', { name: 'Dispatch' }).click();
    await page.getByRole('status').getByRole('link', { name: /^report\/dispatch-/ }).click();
    await sees(page, 'month');
    const [child] = await agent.get('/v1/jobs?prefix=report/');
    const job = await agent.get(`/v1/job/${encodeURIComponent(child.ID)}`);
    assert.equal(Buffer.from(job.Payload, 'base64').toString(), 'a text');
    assert.deepEqual(job.Meta, { month: 'May' });
  },

  async 'a periodic job is run at once, and its run is listed'({ page, agent }) {
    await agent.run('nightly', 'true', { type: 'batch', Periodic: { Enabled: true, Spec: '0 3 * * *', SpecType: 'cron' } });
    await visit(page, agent, '/jobs/nightly@default');
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByRole('link', { name: /^nightly\/periodic-/ }).waitFor();
  },

  async 'a service is shown with the health of its instances'({ page, agent }) {
    await agent.run('shop', 'cd local; echo hello > index.html; exec python3 -m http.server $NOMAD_PORT_http', {
      networks: [{ DynamicPorts: [{ Label: 'http' }] }],
      services: [{ Name: 'shop', Provider: 'nomad', PortLabel: 'http', Checks: [{ Name: 'home', Type: 'http',
        Path: '/', Interval: 1e9, Timeout: 1e9 }] }] });
    await agent.alloc('shop', 'running');
    await visit(page, agent, '/services');
    await page.getByRole('link', { name: 'shop' }).click();
    await until('a passing check', async () => {
      await page.reload();
      return page.locator('tbody', { hasText: 'passing' }).first().isVisible({ timeout: 2000 });
    });
  },

  async 'a failed task is shown with its exit code'({ page, agent }) {
    await agent.run('broken', 'echo cannot >&2; exit 3', { type: 'batch' });
    const alloc = await agent.alloc('broken', 'failed');
    await visit(page, agent, `/allocations/${alloc.ID}`);
    await sees(page, 'Exit Code: 3');
  },

  async 'the node is made ineligible on its page'({ page, agent }) {
    const [node] = await agent.get('/v1/nodes');
    await visit(page, agent, `/clients/${node.ID}`);
    await page.getByRole('button', { name: 'Make ineligible' }).click();
    await page.locator('h1', { hasText: 'ineligible' }).waitFor();
    await page.getByRole('button', { name: 'Make eligible' }).click();
    await page.locator('h1', { hasText: 'ready' }).waitFor();
  },

  async 'a node is drained with a deadline, and taken back'({ page, agent }) {
    const [node] = await agent.get('/v1/nodes');
    await visit(page, agent, `/clients/${node.ID}`);
    await page.getByRole('button', { name: 'Drain…' }).click();
    await page.getByLabel('Minutes', { exact: true }).fill('5');
    await page.getByLabel('leave system jobs on the node').check();
    await page.getByLabel('Message').fill('a new disk');
    await page.getByRole('button', { name: 'Drain', exact: true }).click();
    await page.getByRole('button', { name: 'Move its allocations away' }).click();
    await sees(page, /Draining with a deadline of 5m 0s, system jobs stay/);
    await page.getByRole('button', { name: 'End the drain' }).click();
    await page.locator('h1', { hasText: 'ready' }).waitFor();
    assert.equal((await agent.get(`/v1/node/${node.ID}`)).LastDrain.Meta.message, 'a new disk');
  },

  async 'metadata of a node is set and removed'({ page, agent }) {
    const [node] = await agent.get('/v1/nodes');
    await visit(page, agent, `/clients/${node.ID}`);
    await page.getByLabel('Key of metadata').fill('rack');
    await page.getByLabel('Value of metadata').fill('r7');
    await page.getByRole('button', { name: 'Set', exact: true }).click();
    await page.getByRole('button', { name: 'Remove rack' }).click();
    await page.getByRole('button', { name: 'Remove rack' }).click();
    await until('no rack', async () => !('rack' in ((await agent.get(`/v1/node/${node.ID}`)).Meta ?? {})));
  },

  async 'the time machine shows a past state on every page, with writes off'({ page, agent }) {
    const jobs = await agent.get('/v1/jobs');
    const first = Math.min(...jobs.map((job) => job.CreateIndex));
    await visit(page, agent, '/jobs');
    await page.getByRole('button', { name: 'Time machine' }).click();
    await page.getByLabel('Log index').fill(String(first));
    await sees(page, 'storefront');
    await page.getByText('This is the past').waitFor();
    await until('only the first job', async () => (await page.locator('tbody tr').count()) === 1);
    assert.equal(new URL(page.url()).searchParams.get('at'), String(first));
    await page.getByRole('link', { name: 'storefront' }).click();
    await page.getByText('This is the past').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Stop' }).isDisabled(), true);
    await page.getByRole('button', { name: 'Return to the present' }).click();
    assert.equal(await page.getByRole('button', { name: 'Stop' }).isDisabled(), false);
    await visit(page, agent, `/compare?from=${first}&to=${jobs[0].ModifyIndex}`);
    await sees(page, 'came');
  },

  async 'two edits of a variable: the second one sees the conflict and loses nothing'({ page, agent }) {
    await agent.ask('PUT', '/v1/var/app/web', { Path: 'app/web', Items: { color: 'blue' } });
    await visit(page, agent, '/variables/app%2Fweb/default');
    await page.getByRole('button', { name: 'Show values' }).click();
    await page.getByLabel('Value of color').fill('red');
    await agent.ask('PUT', '/v1/var/app/web', { Path: 'app/web', Items: { color: 'green' } });
    await page.getByText('Conflict.').waitFor();
    await page.getByRole('button', { name: 'Take theirs' }).click();
    assert.equal(await page.getByLabel('Value of color').inputValue(), 'green');
    await page.getByLabel('Value of color').fill('red');
    await page.getByRole('button', { name: 'Save' }).click();
    await until('the value', async () => (await agent.get('/v1/var/app/web')).Items.color === 'red');
  },

  async 'a namespace, a pool and a quota are written, used and deleted'({ page, agent }) {
    await visit(page, agent, '/places');
    await page.getByRole('link', { name: 'New quota' }).click();
    await page.getByLabel('Name', { exact: true }).fill('small');
    await page.getByLabel('CPU, MHz').fill('900');
    await page.getByLabel('Allocations').fill('5');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('h1', { hasText: 'small' }).waitFor();
    await sees(page, 'CPU: 0 of 900 MHz');
    await visit(page, agent, '/places/new-namespace');
    await page.getByLabel('Name', { exact: true }).fill('team');
    await page.getByLabel('Description').fill('of the shop');
    await page.getByLabel('Quota').selectOption('small');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('h1', { hasText: 'team' }).waitFor();
    assert.equal((await agent.get('/v1/namespace/team')).Quota, 'small');
    await agent.run('of-the-team', LOOP, { namespace: 'team', cpu: 300 });
    await visit(page, agent, '/places');
    await sees(page, 'CPU: 300 of 900 MHz');
    await page.getByRole('link', { name: 'New node pool' }).click();
    await page.getByLabel('Name', { exact: true }).fill('gpu');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('h1', { hasText: 'gpu' }).waitFor();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('button', { name: 'Delete the pool' }).click();
    await page.waitForURL(/\/places$/);
    await until('no pool', async () => (await agent.get('/v1/node/pools')).every((pool) => pool.Name !== 'gpu'));
  },

  async 'the scheduler is configured, and two operators do not overwrite each other'({ page, agent }) {
    await visit(page, agent, '/servers/settings');
    await page.getByLabel('Memory oversubscription').check();
    const { SchedulerConfig: theirs } = await agent.get('/v1/operator/scheduler/configuration');
    await agent.ask('PUT', '/v1/operator/scheduler/configuration', { ...theirs, SchedulerAlgorithm: 'spread' });
    await sees(page, 'Someone else has changed this');
    await page.getByRole('button', { name: 'Save' }).first().click();
    await sees(page, 'nothing was written');
    await page.getByRole('button', { name: 'Take back' }).click();
    assert.equal(await page.getByLabel('Algorithm').inputValue(), 'spread');
    await page.getByLabel('Algorithm').selectOption('binpack');
    await page.getByRole('button', { name: 'Save' }).first().click();
    await until('the algorithm', async () => (await agent.get('/v1/operator/scheduler/configuration'))
      .SchedulerConfig.SchedulerAlgorithm === 'binpack');
  },

  async 'an event shows its cause and its effects'({ page, agent }) {
    const { JobModifyIndex: index } = await agent.run('caused', LOOP);
    await agent.alloc('caused', 'running');
    await visit(page, agent, '/events');
    await page.getByLabel('Topic').selectOption('Job');
    await page.getByRole('row', { name: new RegExp(`#${index} JobRegistered`) }).getByRole('button', { name: 'JobRegistered' }).click();
    await page.locator('.chain', { hasText: 'ApplyPlanResults' }).waitFor();
    await page.locator('.chain li', { hasText: 'JobRegister' }).first().waitFor();
  },

  async 'events are explored with a filter, from the beginning'({ page, agent }) {
    await visit(page, agent, '/events');
    await page.getByLabel('Filter').fill('Type == JobRegistered and Topic == Job');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByRole('button', { name: 'From the beginning' }).click();
    await page.getByRole('button', { name: 'JobRegistered' }).last().click();
    await sees(page, '"Topic": "Job"');
  },

  async 'names, metadata and log lines with markup stay text'({ page, agent }) {
    const name = MARKUP.replaceAll(' ', '_');
    await agent.run(name, `while true; do echo '${MARKUP}'; sleep 0.5; done`, { meta: { note: MARKUP } });
    const alloc = await agent.alloc(name, 'running');
    const paths = ['/jobs', `/jobs/${encodeURIComponent(`${name}@default`)}`,
      '/allocations', `/allocations/${alloc.ID}`,
      `/allocations/${alloc.ID}/explain`, `/allocations/${alloc.ID}/logs`, '/events',
        '/audit', `/jobs/${encodeURIComponent(MARKUP)}`];
    for (const path of paths) {
      await visit(page, agent, path);
      if (path === '/audit') await page.getByRole('button', { name: 'JobRegister' }).first().click();
      await page.locator('main', { hasText: 'onerror' }).waitFor();
      assert.equal(await page.evaluate(() => window.broken), undefined, path);
      assert.equal(await page.locator('main img, main script').count(), 0, path);
    }
  },

  async 'keys reach every page, and search finds a job'({ page, agent }) {
    await visit(page, agent, '/');
    await page.keyboard.press('g');
    await page.keyboard.press('n');
    await page.locator('h1', { hasText: 'Nodes' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('storefr');
    await page.keyboard.press('Enter');
    await page.locator('h1', { hasText: 'storefront' }).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
  },

  async 'no page has a finding of axe, in light or dark'({ page, agent, axe }) {
    const alloc = await agent.alloc('storefront', 'running');
    const [node] = await agent.get('/v1/nodes');
    const paths = ['/', '/jobs', '/jobs/run', '/jobs/storefront@default', '/jobs/storefront@default/versions',
      '/jobs/too-big@default',
      '/allocations', `/allocations/${alloc.ID}`, `/allocations/${alloc.ID}/explain`, `/allocations/${alloc.ID}/logs`,
        '/clients',
      `/clients/${node.ID}`, '/evaluations', '/deployments', '/services', '/storage', '/variables',
        '/variables/app%2Fweb/default',
      '/places', '/places/namespaces/team', '/places/quotas/small', '/places/pools/default', '/places/new-quota',
      '/servers', '/servers/settings', '/servers/snapshot', '/servers/metrics', `/allocations/${alloc.ID}/exec`,
      `/allocations/${alloc.ID}/files`, '/jobs/report@default', '/jobs/storefront@default/services',
      '/jobs/storefront@default/deployments', '/services/shop/default', '/access', '/events', '/audit', '/login', '/jobs?at=12', '/compare?from=5&to=15'];
    for (const path of paths) {
      await page.goto(`${agent.address}/ui${path}`);
      await page.locator('.link-state', { hasText: 'live' }).waitFor();
      await page.locator('h1').waitFor();
      await isAccessible(page, axe, path);
    }
    console.log(`     ${paths.length} pages in two themes, 0 findings`);
  },

  async 'a page outlives the death of the agent and catches up without a reload'({ page, agent }) {
    await visit(page, agent, '/jobs');
    await page.evaluate(() => { window.same = true; });
    await agent.kill();
    await page.locator('.offline').waitFor();
    await sees(page, 'storefront');
    await agent.begin();
    await until('a write', () => agent.run('after-the-crash', LOOP).then(() => true));
    await page.getByRole('link', { name: 'after-the-crash' }).waitFor();
    await page.locator('.link-state', { hasText: 'live' }).waitFor();
    assert.equal(await page.locator('.offline').count(), 0);
    assert.equal(await page.evaluate(() => window.same), true);
  },

  async 'a snapshot is saved, checked and restored with its progress'({ page, agent }) {
    await visit(page, agent, '/servers/snapshot');
    const [download] = await Promise.all([page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save a snapshot' }).click()]);
    const file = await download.path();
    await sees(page, 'saved as songline-');
    await agent.run('after-the-snapshot', 'true', { type: 'batch' });
    await page.getByLabel('Archive to restore').setInputFiles(file);
    await page.getByRole('button', { name: 'Check it' }).click();
    await sees(page, /It was made at index \d+ and holds .*\d+ jobs row/);
    await page.getByRole('button', { name: 'Restore it' }).click();
    await page.getByRole('button', { name: 'Replace the whole state' }).click();
    await sees(page, 'Restored.');
    await page.locator('.link-state', { hasText: 'live' }).waitFor();
    await until('the old state', async () => (await agent.get('/v1/jobs')).every((job) => job.ID !== 'after-the-snapshot'));
    await page.getByLabel('Archive to restore').setInputFiles({ name: 'no.snap', mimeType: 'application/gzip',
      buffer: Buffer.from('no archive') });
    assert.equal(await page.getByRole('button', { name: 'Restore it' }).isDisabled(), true);
    await page.getByRole('button', { name: 'Check it' }).click();
    await page.locator('main [role=alert]').waitFor();
  },
};

export const acl = {
  async 'without a token the page asks for one'({ page, agent }) {
    const first = await until('the first token', () => agent.ask('POST', '/v1/acl/bootstrap'));
    agent.token = first.SecretID;
    await agent.run('storefront', LOOP);
    await agent.ask('POST', '/v1/acl/policy/look', { Name: 'look', Rules: 'namespace "default" { policy = "read" }' });
    agent.reader = (await agent.ask('POST', '/v1/acl/token', { Name: 'reader', Type: 'client',
      Policies: ['look'] })).SecretID;
    await page.goto(`${agent.address}/ui/jobs`);
    await page.getByText('This token may not follow the cluster').waitFor();
    assert.equal(await page.getByText('storefront').count(), 0);
  },

  async 'a token that does not exist is refused, and a reader sees jobs and may not stop one'({ page, agent }) {
    await page.goto(`${agent.address}/ui/login`);
    await page.getByLabel('Secret id').fill('00000000-0000-0000-0000-000000000000');
    await page.getByRole('button', { name: 'Log in' }).click();
    await sees(page, 'does not know this token');
    await page.getByLabel('Secret id').fill(agent.reader);
    await page.getByRole('button', { name: 'Log in' }).click();
    await sees(page, 'reader');
    await visit(page, agent, '/jobs/storefront@default');
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.getByRole('button', { name: 'Stop storefront' }).click();
    await page.getByText('Permission denied').waitFor();
    await visit(page, agent, '/audit');
    await sees(page, 'Not permitted');
    await visit(page, agent, '/access');
    await sees(page, 'Not permitted');
  },

  async 'policies, roles and tokens are written on the page, and a secret is shown once'({ page, agent }) {
    await page.addInitScript((secret) => localStorage.setItem('songline.token', secret), agent.token);
    await visit(page, agent, '/access/new-policy');
    await page.getByLabel('Name', { exact: true }).fill('deploy');
    await page.getByLabel('Rules, HCL').fill('namespace "default" { policy = "nonsense" }');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('main [role=alert]').waitFor();
    await page.getByLabel('Rules, HCL').fill('namespace "default" { policy = "write" }');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('h1', { hasText: 'deploy' }).waitFor();
    await visit(page, agent, '/access/new-role');
    await page.getByLabel('Name', { exact: true }).fill('deployers');
    await page.getByLabel('deploy', { exact: true }).check();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('h1', { hasText: 'deployers' }).waitFor();
    await visit(page, agent, '/access');
    await page.getByRole('button', { name: 'New token' }).click();
    await page.getByLabel('Name', { exact: true }).fill('ci');
    await page.getByLabel('deployers').check();
    await page.getByLabel('Lifetime').fill('1h');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    const secret = await page.getByLabel('Secret id').inputValue();
    const own = await (await fetch(`${agent.address}/v1/acl/token/self`, { headers: { 'X-Nomad-Token': secret } })).json();
    assert.equal(own.Roles[0].Name, 'deployers');
    await page.getByRole('button', { name: 'Done' }).click();
    assert.ok(!(await page.content()).includes(secret));
    await page.getByRole('row', { name: /^ci/ }).getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete the token' }).click();
    await until('no such token', async () => (await agent.get('/v1/acl/tokens')).every((token) => token.Name !== 'ci'));
  },

  async 'a person logs in with a provider, and with a token of another issuer'({ page, agent }) {
    const provider = await Provider.start();
    try {
      const write = (name, type, config) => agent.ask('PUT', '/v1/acl/auth-method', { Name: name, Type: type,
        TokenLocality: 'local', MaxTokenTTL: '1h', Config: config });
      await write('sso', 'OIDC', provider.method(`${agent.address}/ui/settings/tokens`));
      await write('robots', 'JWT', { JWTValidationPubKeys: [provider.publicKey()], BoundAudiences: ['songline'],
        SigningAlgs: ['RS256'] });
      for (const method of ['sso', 'robots']) {
        await agent.ask('PUT', '/v1/acl/binding-rule', { AuthMethod: method, BindType: 'policy', BindName: 'look' });
      }
      await page.goto(`${agent.address}/ui/login`);
      await page.getByRole('button', { name: 'Log in with sso' }).click();
      await page.locator('.link-state', { hasText: 'live' }).waitFor();
      await visit(page, agent, '/login');
      await sees(page, 'OIDC-sso');
      assert.ok(!page.url().includes('code='));
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByLabel('Signed token (JWT)').fill(provider.token({}));
      await page.getByLabel('Signed token (JWT)').locator('xpath=ancestor::section').getByRole('button', { name: 'Log in' }).click();
      await sees(page, 'JWT-robots');
    } finally {
      provider.end();
    }
  },

  async 'the pages about access have no finding of axe'({ page, agent, axe }) {
    await page.addInitScript((secret) => localStorage.setItem('songline.token', secret), agent.token);
    const [role] = await agent.get('/v1/acl/roles');
    for (const path of ['/access', '/access/policies', '/access/roles', '/access/logins', '/access/policies/look',
      `/access/roles/${role.ID}`, '/access/new-policy', '/login']) {
      await visit(page, agent, path);
      await page.locator('h1').waitFor();
      await isAccessible(page, axe, path);
    }
  },

  async 'a management token sees who did what'({ page, agent }) {
    await page.addInitScript((secret) => localStorage.setItem('songline.token', secret), agent.token);
    await visit(page, agent, '/audit');
    await sees(page, 'JobRegister');
    await visit(page, agent, '/access');
    await sees(page, 'reader');
    assert.ok(!(await page.content()).includes(agent.reader), 'no secret is on the page');
  },
};
