// Jobs, allocations and services on the page, beside what the API says of them.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { until } from '../agent.mjs';
import { LOOP, sees, visit } from '../look.mjs';

export const work = {
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

  async 'canaries are shown and promoted, and an older version comes back'({ page, agent }) {
    const update = { MaxParallel: 1, Canary: 1, HealthCheck: 'task_states', MinHealthyTime: 1e8, HealthyDeadline: 30e9,
      ProgressDeadline: 60e9 };
    const done = (version) => until(`version ${version}`, async () => {
      const row = await agent.get('/v1/job/canary/deployment');
      return row?.JobVersion === version && row.Status === 'successful';
    });
    await agent.run('canary', LOOP, { count: 2, Update: update });
    await done(0);
    await agent.run('canary', `true; ${LOOP}`, { count: 2, Update: update });
    await visit(page, agent, '/jobs/canary@default');
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Resume' }).click();
    await sees(page, '1 canary waiting');
    await page.locator('.tools.flat').getByText('healthy', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Promote canaries' }).click();
    await done(1);
    await page.getByRole('link', { name: 'Versions' }).click();
    await page.getByRole('button', { name: 'Revert to this' }).click();
    await page.getByRole('button', { name: 'Revert to version 0' }).click();
    await sees(page, 'Version 2');
    await until('the older command', async () => !(await agent.get('/v1/job/canary'))
      .TaskGroups[0].Tasks[0].Config.args[1].startsWith('true;'));
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

  async 'lists are filtered in the language of the API, and a wrong filter says why'({ page, agent }) {
    await agent.run('one-of-batch', 'true', { type: 'batch', meta: { owner: 'data team' } });
    for (const [path, label, filter, wanted, other] of [
      ['/jobs', 'Filter jobs', 'Type == batch and Meta["owner"] == "data team"', 'one-of-batch', 'storefront'],
      ['/allocations', 'Filter allocations', 'JobID == storefront and ClientStatus == running', 'storefront', 'one-of-batch'],
      ['/evaluations', 'Filter evaluations', 'JobID == "one-of-batch"', 'one-of-batch', 'storefront'],
      ['/clients', 'Filter nodes', 'Status == ready', 'quokka', 'storefront']]) {
      await visit(page, agent, path);
      await page.getByLabel(label).fill(filter);
      await page.locator('tbody', { hasText: wanted }).waitFor();
      await until(`nothing else at ${path}`, async () => !(await page.locator('tbody').last().textContent()).includes(other));
    }
    await page.getByLabel('Filter nodes').fill('Status == ');
    await page.locator('main [role=alert]').waitFor();
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
    await page.getByRole('button', { name: '‹ up' }).click();
    await page.getByRole('button', { name: /^alloc\// }).click();
    await page.getByRole('button', { name: /^logs\// }).click();
    await page.getByRole('button', { name: /^server\.stdout/ }).click();
    const [download] = await Promise.all([page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click()]);
    assert.match(readFileSync(await download.path(), 'utf8'), /^line 1\n/);
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
};
