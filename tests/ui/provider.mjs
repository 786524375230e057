// A provider of single sign-on (OpenID Connect) that knows one person and asks nothing.

import { createHash, createSign, generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const KEY = 'key-1';
const CLIENT = 'songline';

const base64 = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

export class Provider {
  static async start() {
    const provider = new Provider();
    provider.keys = generateKeyPairSync('rsa', { modulusLength: 2048 });
    provider.codes = new Map();
    provider.server = createServer((asked, answer) => provider.answer(asked, answer));
    await new Promise((done) => { provider.server.listen(0, '127.0.0.1', done); });
    provider.issuer = `http://127.0.0.1:${provider.server.address().port}`;
    return provider;
  }

  end() {
    this.server.close();
    this.server.closeAllConnections();
  }

  /** Configuration of an auth method that trusts this provider. */
  method(returns) {
    return { OIDCDiscoveryURL: this.issuer, OIDCClientID: CLIENT, OIDCClientSecret: 'secret', BoundAudiences: [CLIENT],
      AllowedRedirectURIs: [returns], SigningAlgs: ['RS256'] };
  }

  /** A signed token about the person. */
  token(claims) {
    const now = Math.floor(Date.now() / 1000);
    const body = `${base64({ alg: 'RS256', kid: KEY, typ: 'JWT' })}.${base64({ iss: this.issuer, sub: 'ada', aud: CLIENT,
      iat: now, exp: now + 300, ...claims })}`;
    return `${body}.${createSign('RSA-SHA256').update(body).sign(this.keys.privateKey).toString('base64url')}`;
  }

  publicKey() {
    return this.keys.publicKey.export({ type: 'spki', format: 'pem' });
  }

  async answer(asked, answer) {
    const url = new URL(asked.url, this.issuer);
    const say = (value) => answer.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (url.pathname === '/.well-known/openid-configuration') {
      say({ issuer: this.issuer, authorization_endpoint: `${this.issuer}/authorize`, token_endpoint: `${this.issuer}/token`,
        jwks_uri: `${this.issuer}/keys`, response_types_supported: ['code'], subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'], code_challenge_methods_supported: ['S256'] });
    } else if (url.pathname === '/keys') {
      say({ keys: [{ ...this.keys.publicKey.export({ format: 'jwk' }), kid: KEY, use: 'sig', alg: 'RS256' }] });
    } else if (url.pathname === '/authorize') {
      const code = randomUUID();
      this.codes.set(code, { nonce: url.searchParams.get('nonce'), challenge: url.searchParams.get('code_challenge') });
      const back = new URL(url.searchParams.get('redirect_uri'));
      back.searchParams.set('state', url.searchParams.get('state'));
      back.searchParams.set('code', code);
      answer.writeHead(302, { location: back.href }).end();
    } else if (url.pathname === '/token') {
      let text = '';
      for await (const piece of asked) text += piece;
      const form = new URLSearchParams(text);
      const login = this.codes.get(form.get('code'));
      const proof = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
      if (login === undefined || login.challenge !== proof) answer.writeHead(400).end('{"error":"invalid_grant"}');
      else say({ access_token: 'none', token_type: 'Bearer', expires_in: 300, id_token: this.token({ nonce: login.nonce }) });
    } else answer.writeHead(404).end();
  }
}
