// Rights: logins, refusals, and the pages of policies, roles and tokens.

import assert from 'node:assert/strict';

import { until } from '../agent.mjs';
import { LOOP, isAccessible, sees, visit } from '../look.mjs';
import { Provider } from '../provider.mjs';

export const access = {
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
    const alloc = await agent.alloc('storefront', 'running');
    await visit(page, agent, `/allocations/${alloc.ID}/exec`);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await sees(page, 'Permission denied');
    await visit(page, agent, '/audit');
    await sees(page, 'Not permitted');
    await visit(page, agent, '/access');
    await sees(page, 'Not permitted');
    await visit(page, agent, '/sinks');
    await sees(page, 'Not permitted');
  },

  async 'a token that reads the operator\'s things sees event sinks and may not delete one'({ page, agent }) {
    await agent.ask('POST', '/v1/acl/policy/operate', { Name: 'operate',
      Rules: 'operator { policy = "read" } namespace "default" { policy = "read" }' });
    const { SecretID } = await agent.ask('POST', '/v1/acl/token', { Name: 'operator', Type: 'client', Policies: ['operate'] });
    await agent.ask('PUT', '/v1/event-sink/bus', { Type: 'nats', Address: 'nats://127.0.0.1:1', Subject: 'a' });
    await page.addInitScript((secret) => localStorage.setItem('songline.token', secret), SecretID);
    await visit(page, agent, '/sinks');
    await page.getByRole('link', { name: 'bus' }).click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('button', { name: 'Delete the event sink' }).click();
    await page.getByText('Permission denied').waitFor();
    await page.getByLabel('Subject').fill('b');
    await page.getByRole('button', { name: 'Save' }).click();
    await until('two refusals', async () => (await page.getByText('Permission denied').count()) === 2);
    const { Subject } = await agent.get('/v1/event-sink/bus');
    assert.equal(Subject, 'a');
    await agent.ask('DELETE', '/v1/event-sink/bus');
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
      await agent.ask('PUT', '/v1/acl/auth-method', { Name: 'robots', Type: 'JWT', TokenLocality: 'local', MaxTokenTTL: '1h',
        Config: { JWTValidationPubKeys: [provider.publicKey()], BoundAudiences: ['songline'], SigningAlgs: ['RS256'] } });
      await agent.ask('PUT', '/v1/acl/binding-rule', { AuthMethod: 'robots', BindType: 'policy', BindName: 'look' });
      const store = (secret) => page.evaluate((value) => localStorage.setItem('songline.token', value), secret);
      await page.goto(`${agent.address}/ui/login`);
      await store(agent.token);
      await visit(page, agent, '/access/new-method');
      await page.getByLabel('JSON').fill('{ no JSON');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.locator('main [role=alert]').waitFor();
      await page.getByLabel('JSON').fill(JSON.stringify({ Name: 'sso', Type: 'OIDC', TokenLocality: 'local',
        MaxTokenTTL: '1h', Config: provider.method(`${agent.address}/ui/settings/tokens`) }));
      await page.getByRole('button', { name: 'Save' }).click();
      await page.locator('h1', { hasText: 'sso' }).waitFor();
      await until('a hidden secret', async () => (await page.getByLabel('JSON').inputValue()).includes('redacted'));
      await visit(page, agent, '/access/new-rule');
      await page.getByLabel('JSON').fill(JSON.stringify({ AuthMethod: 'sso', BindType: 'policy', BindName: 'look' }));
      await page.getByRole('button', { name: 'Save' }).click();
      await page.waitForURL(/\/access\/rules\//);
      await store('');
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
      `/access/roles/${role.ID}`, '/access/new-policy', '/access/methods/sso', '/login']) {
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
