// Nodes, variables, namespaces, settings and events on the page: what operators do.

import assert from 'node:assert/strict';

import { until } from '../agent.mjs';
import { LOOP, isAccessible, sees, visit } from '../look.mjs';
import { missing, run } from '../plugin.mjs';

export const cluster = {
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
    // The node tells the servers with its next report.
    await until('no rack', async () => !('rack' in ((await agent.get(`/v1/node/${node.ID}`)).Meta ?? {})), 60_000);
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
    await until('the fields', async () => (await page.getByLabel('Description').inputValue()) === 'of the shop');
    await page.getByLabel('Description').fill('mine');
    await agent.ask('PUT', '/v1/namespace', { Name: 'team', Description: 'theirs', Quota: 'small' });
    await sees(page, 'Conflict.');
    assert.equal(await page.getByLabel('Description').inputValue(), 'mine');
    await page.getByRole('button', { name: 'Take theirs' }).click();
    assert.equal(await page.getByLabel('Description').inputValue(), 'theirs');
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

  async 'a volume is made by its plugin, a snapshot of it, and both are deleted'({ page, agent, axe }) {
    const why = missing();
    if (why !== '') {
      console.log(`     skipped: ${why}`);
      return;
    }
    await run(agent);
    await until('a healthy plugin', async () => {
      const disk = (await agent.get('/v1/plugins?type=csi')).find((plugin) => plugin.ID === 'disk');
      return disk?.ControllersHealthy === 1 && disk.NodesHealthy === 1;
    }, 60_000);
    await visit(page, agent, '/storage/new');
    await page.getByLabel('Id', { exact: true }).fill('data');
    await page.getByLabel('At least, GiB').fill('2');
    await isAccessible(page, axe, '/storage/new');
    await page.getByRole('button', { name: 'Create' }).click();
    await sees(page, '2.0 GiB');
    await visit(page, agent, '/storage');
    await page.getByRole('link', { name: 'disk' }).last().click();
    await page.getByRole('row', { name: /controller healthy/ }).waitFor();
    await isAccessible(page, axe, '/storage/plugins/disk');
    await visit(page, agent, '/storage');
    await page.getByRole('link', { name: 'data' }).click();
    await sees(page, 'ext-data');
    await page.getByRole('button', { name: 'Make a snapshot' }).click();
    await page.getByRole('row', { name: /ready|yes/ }).getByRole('button', { name: 'Delete' }).click();
    await isAccessible(page, axe, '/storage/volumes/data/default');
    await page.getByRole('button', { name: 'Delete the snapshot' }).click();
    await sees(page, 'None of this volume.');
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('button', { name: 'Delete what is stored in it' }).click();
    await page.waitForURL(/\/storage$/);
    await sees(page, 'No volume is registered.');
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
    const others = page.getByRole('row', { name: new RegExp(`#${index} JobRegistered.* Evaluation`) });
    await others.first().waitFor();
    await page.getByLabel('Topic').selectOption('Job');
    assert.equal(await others.count(), 0, 'rows of other topics go with the choice of one');
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
};
