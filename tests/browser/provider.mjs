// A certified provider of OpenID Connect (npm's oidc-provider) with two people. Arguments: port, our address.
import { pathToFileURL } from 'node:url';

const [modules, port, ours] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`).href);
const groups = { ada: ['admins'], bob: ['engineers'], eve: [] };

const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    {
      client_id: 'memoranda',
      client_secret: 'a-secret-of-the-test',
      redirect_uris: [`${ours}/console/oidc/callback`],
      post_logout_redirect_uris: [`${ours}/console/sign-in`],
      backchannel_logout_uri: `${ours}/console/oidc/logout`,
    },
  ],
  claims: { openid: ['sub'], profile: ['name'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'groups'],
  pkce: { required: () => true },
  features: { backchannelLogout: { enabled: true } },
  // Without the provider's own dispatcher, which refuses addresses of this machine.
  fetch: (address, { dispatcher, ...options }) => globalThis.fetch(address, options),
  findAccount: async (_context, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, name: `${id} of the team`, groups: groups[id] ?? [] }),
  }),
});
provider.listen(Number(port), 'localhost', () => console.log('ready'));
