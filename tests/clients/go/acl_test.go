package clients

// ACLs, on an agent of their own: bootstrap, policies, tokens, roles, one-time tokens, auth methods, binding rules and login.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

var (
	aclOnce   sync.Once
	aclAgent  *agent
	aclClient *api.Client
	aclErr    error
)

func aclConfig(dir string) (map[string]any, error) {
	config, err := devConfig(dir)
	if err == nil {
		config["acl"] = map[string]any{"enabled": true}
	}
	return config, err
}

// aclNotServed counts every method of the ACL services as not served.
func aclNotServed(why string) {
	for _, service := range services() {
		name := service.Elem().Name()
		if len(name) > 3 && name[:3] == "ACL" && name != "ACLOIDC" {
			for i := range service.NumMethod() {
				unserved.Store(name+"."+service.Method(i).Name, why)
			}
		}
	}
}

// guarded is a client with a management token of an agent with ACLs; nil where there are no ACLs yet.
func guarded(t *testing.T) *api.Client {
	t.Helper()
	aclOnce.Do(func() {
		if aclAgent, aclErr = start(aclConfig, "-dev"); aclErr != nil {
			return
		}
		var token *api.ACLToken
		if token, _, aclErr = aclAgent.client.ACLTokens().Bootstrap(nil); aclErr != nil {
			return
		}
		aclClient, aclErr = api.NewClient(&api.Config{Address: aclAgent.addr, SecretID: token.SecretID})
	})
	if aclErr != nil && (strings.Contains(aclErr.Error(), "this version has no ACLs yet") || !served(t, "ACLTokens.Bootstrap", aclErr)) {
		aclNotServed("ACLs are not served")
		t.Skip("ACLs are not served")
	}
	must(t, aclErr)
	return aclClient
}

func stopGuarded() {
	if aclAgent != nil {
		aclAgent.stop()
	}
}

// withToken is a client of the same agent with another token.
func withToken(t *testing.T, secret string) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: aclAgent.addr, SecretID: secret})
	must(t, err)
	return client
}

func TestAClusterIsBootstrappedOnce(t *testing.T) {
	guarded(t)
	_, _, err := withToken(t, "").ACLTokens().Bootstrap(nil)
	refused(t, err, 400, "ACL bootstrap already done")
	_, _, err = withToken(t, "").ACLTokens().BootstrapOpts("2b778dd9-f5f1-6f29-b4b4-9a5fa948757a", nil)
	refused(t, err, 400, "ACL bootstrap already done")

	agent := own(t, aclConfig, "-dev")
	token, meta, err := agent.client.ACLTokens().BootstrapOpts("2b778dd9-f5f1-6f29-b4b4-9a5fa948757a", nil)
	written(t, meta, err)
	equal(t, "secret", token.SecretID, "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a")
	equal(t, "type", token.Type, "management")
	check(t, token.Global && token.Name == "Bootstrap Token" && !token.CreateTime.IsZero(), "token %+v", token)
}

func TestPoliciesDecideWhatTokensMay(t *testing.T) {
	c := guarded(t)
	policies, tokens := c.ACLPolicies(), c.ACLTokens()
	rules := `namespace "default" { policy = "read" }`
	meta, err := policies.Upsert(&api.ACLPolicy{Name: "go-reader", Description: "reads", Rules: rules}, nil)
	written(t, meta, err)
	policy, queried, err := policies.Info("go-reader", nil)
	read(t, queried, err)
	equal(t, "rules", policy.Rules, rules)
	equal(t, "description", policy.Description, "reads")
	list, queried, err := policies.List(nil)
	read(t, queried, err)
	check(t, has(names(list, func(p *api.ACLPolicyListStub) string { return p.Name }), "go-reader"), "policies %v", list)
	_, err = policies.Upsert(&api.ACLPolicy{Name: "go-bad", Rules: `namespace "default" { policy = "nope" }`}, nil)
	refused(t, err, 400, "Invalid namespace policy")

	token, meta, err := tokens.Create(&api.ACLToken{Name: "reader", Type: "client", Policies: []string{"go-reader"}, ExpirationTTL: time.Hour}, nil)
	written(t, meta, err)
	check(t, token.SecretID != "" && token.AccessorID != "" && token.ExpirationTime != nil, "token %+v", token)
	equal(t, "ttl", token.ExpirationTTL, time.Hour)
	reader := withToken(t, token.SecretID)
	_, _, err = reader.Jobs().List(nil)
	must(t, err)
	_, _, err = reader.Jobs().Register(service("go-forbidden", 1), nil)
	refused(t, err, 403, "Permission denied")
	_, _, err = withToken(t, "").Jobs().List(nil)
	refused(t, err, 403, "Permission denied")
	_, _, err = withToken(t, "c0ffee00-0000-4000-8000-000000000000").Jobs().List(nil)
	refused(t, err, 403, "Permission denied")
	forbidden(t)(reader.Variables().Peek("secret", nil))

	self, queried, err := reader.ACLTokens().Self(nil)
	read(t, queried, err)
	equal(t, "self", self.AccessorID, token.AccessorID)
	info, queried, err := tokens.Info(token.AccessorID, nil)
	read(t, queried, err)
	equal(t, "name", info.Name, "reader")
	info.Name = "renamed"
	updated, meta, err := tokens.Update(info, nil)
	written(t, meta, err)
	equal(t, "name", updated.Name, "renamed")
	stubs, queried, err := tokens.List(nil)
	read(t, queried, err)
	check(t, has(names(stubs, func(s *api.ACLTokenListStub) string { return s.AccessorID }), token.AccessorID), "tokens %v", stubs)

	once, meta, err := reader.ACLTokens().UpsertOneTimeToken(nil)
	written(t, meta, err)
	equal(t, "whose", once.AccessorID, token.AccessorID)
	exchanged, meta, err := withToken(t, "").ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nil)
	written(t, meta, err)
	equal(t, "exchanged for", exchanged.SecretID, token.SecretID)
	_, _, err = withToken(t, "").ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nil)
	check(t, err != nil, "it is for one time")

	meta, err = tokens.Delete(token.AccessorID, nil)
	written(t, meta, err)
	_, _, err = reader.Jobs().List(nil)
	refused(t, err, 403, "Permission denied")
	meta, err = policies.Delete("go-reader", nil)
	written(t, meta, err)
	_, _, err = policies.Info("go-reader", nil)
	refused(t, err, 404, "ACL policy not found")
}

func TestRolesGatherPolicies(t *testing.T) {
	c := guarded(t)
	roles := c.ACLRoles()
	_, err := c.ACLPolicies().Upsert(&api.ACLPolicy{Name: "go-role-policy", Rules: `node { policy = "read" }`}, nil)
	must(t, err)
	role, meta, err := roles.Create(&api.ACLRole{Name: "go-role", Policies: []*api.ACLRolePolicyLink{{Name: "go-role-policy"}}}, nil)
	if !served(t, "ACLRoles.Create", err) {
		return
	}
	written(t, meta, err)
	check(t, role.ID != "", "role %+v", role)
	got, queried, err := roles.Get(role.ID, nil)
	read(t, queried, err)
	equal(t, "policy", got.Policies[0].Name, "go-role-policy")
	got, queried, err = roles.GetByName("go-role", nil)
	read(t, queried, err)
	equal(t, "id", got.ID, role.ID)
	list, queried, err := roles.List(nil)
	read(t, queried, err)
	equal(t, "roles", list[0].Name, "go-role")
	got.Description = "nodes"
	got, meta, err = roles.Update(got, nil)
	written(t, meta, err)
	equal(t, "description", got.Description, "nodes")
	token, _, err := c.ACLTokens().Create(&api.ACLToken{Name: "r", Type: "client", Roles: []*api.ACLTokenRoleLink{{Name: "go-role"}}}, nil)
	must(t, err)
	equal(t, "role", token.Roles[0].ID, role.ID)
	_, _, err = withToken(t, token.SecretID).Nodes().List(nil)
	must(t, err)
	meta, err = roles.Delete(role.ID, nil)
	written(t, meta, err)
	_, _, err = roles.Get(role.ID, nil)
	refused(t, err, 404, "ACL role not found")
}

// signed is a JWT of the key with these claims.
func signed(t *testing.T, key *ecdsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	encode := func(value any) string {
		text, err := json.Marshal(value)
		must(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	payload := encode(map[string]any{"alg": "ES256", "typ": "JWT"}) + "." + encode(claims)
	digest := sha256.Sum256([]byte(payload))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	must(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return payload + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestTokensOfOthersLogIn(t *testing.T) {
	c := guarded(t)
	methods, rules := c.ACLAuthMethods(), c.ACLBindingRules()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	method, meta, err := methods.Create(&api.ACLAuthMethod{Name: "go-jwt", Type: "JWT", TokenLocality: "local", MaxTokenTTL: time.Hour,
		Config: &api.ACLAuthMethodConfig{JWTValidationPubKeys: []string{public}, BoundAudiences: []string{"songline"},
			BoundIssuer: []string{"tests"}, SigningAlgs: []string{"ES256"}, ClaimMappings: map[string]string{"user": "user"},
			ListClaimMappings: map[string]string{"groups": "groups"}, ClockSkewLeeway: time.Minute}}, nil)
	if !served(t, "ACLAuthMethods.Create", err) {
		for _, name := range []string{"ACLAuthMethods.Get", "ACLAuthMethods.List", "ACLAuthMethods.Update", "ACLAuthMethods.Delete",
			"ACLBindingRules.Create", "ACLBindingRules.Get", "ACLBindingRules.List", "ACLBindingRules.Update", "ACLBindingRules.Delete",
			"ACLAuth.Login", "ACLAuth.GetAuthURL", "ACLAuth.CompleteAuth"} {
			unserved.Store(name, "auth methods are not served")
		}
		return
	}
	written(t, meta, err)
	equal(t, "ttl", method.MaxTokenTTL, time.Hour)
	equal(t, "leeway", method.Config.ClockSkewLeeway, time.Minute)
	got, queried, err := methods.Get("go-jwt", nil)
	read(t, queried, err)
	equal(t, "audiences", got.Config.BoundAudiences, []string{"songline"})
	list, queried, err := methods.List(nil)
	read(t, queried, err)
	equal(t, "methods", list[0].Name, "go-jwt")
	got.MaxTokenTTL = 30 * time.Minute
	got, meta, err = methods.Update(got, nil)
	written(t, meta, err)
	equal(t, "ttl", got.MaxTokenTTL, 30*time.Minute)

	rule, meta, err := rules.Create(&api.ACLBindingRule{AuthMethod: "go-jwt", BindType: "management", Selector: `"admins" in list.groups`}, nil)
	written(t, meta, err)
	same, queried, err := rules.Get(rule.ID, nil)
	read(t, queried, err)
	equal(t, "selector", same.Selector, `"admins" in list.groups`)
	same.Description = "admins may all"
	same, meta, err = rules.Update(same, nil)
	written(t, meta, err)
	equal(t, "description", same.Description, "admins may all")
	listed, queried, err := rules.List(nil)
	read(t, queried, err)
	equal(t, "rules", listed[0].ID, rule.ID)

	claims := map[string]any{"iss": "tests", "aud": "songline", "sub": "me", "user": "me", "groups": []string{"admins"},
		"iat": time.Now().Unix(), "nbf": time.Now().Unix() - 5, "exp": time.Now().Unix() + 300}
	anybody := withToken(t, "")
	token, meta, err := anybody.ACLAuth().Login(&api.ACLLoginRequest{AuthMethodName: "go-jwt", LoginToken: signed(t, key, claims)}, nil)
	if served(t, "ACLAuth.Login", err) {
		written0(t, meta, err)
		equal(t, "type", token.Type, "management")
		equal(t, "ttl", token.ExpirationTTL, 30*time.Minute)
		_, _, err = withToken(t, token.SecretID).ACLTokens().List(nil)
		must(t, err)
		claims["iss"] = "somebody else"
		_, _, err = anybody.ACLAuth().Login(&api.ACLLoginRequest{AuthMethodName: "go-jwt", LoginToken: signed(t, key, claims)}, nil)
		check(t, err != nil, "a token of another issuer logged in")
	}
	_, _, err = anybody.ACLAuth().GetAuthURL(&api.ACLOIDCAuthURLRequest{AuthMethodName: "go-jwt", RedirectURI: "http://127.0.0.1:4649/oidc/callback", ClientNonce: "n"}, nil)
	if served(t, "ACLAuth.GetAuthURL", err) {
		check(t, err != nil, "the method is not one of OIDC")
	}
	_, _, err = anybody.ACLAuth().CompleteAuth(&api.ACLOIDCCompleteAuthRequest{AuthMethodName: "go-jwt", ClientNonce: "n", State: "s", Code: "c", RedirectURI: "http://127.0.0.1:4649/oidc/callback"}, nil)
	if served(t, "ACLAuth.CompleteAuth", err) {
		check(t, err != nil, "nobody asked for this")
	}
	check(t, c.ACLOIDC() != nil, "the older name of the same")

	meta, err = rules.Delete(rule.ID, nil)
	written(t, meta, err)
	meta, err = methods.Delete("go-jwt", nil)
	written(t, meta, err)
	_, _, err = methods.Get("go-jwt", nil)
	refused(t, err, 404, "ACL auth-method not found")
}
