// An OpenID provider that gives tokens for client credentials: node issuer.mjs SETTINGS. SETTINGS is a file with JSON: `port` (0: a
// free one), `issuer` (absent: the URL of this server), `keys` (JWKs with their private parts; the first signs), `audience`,
// `client` and `secret`. Prints the URL when it serves.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import Provider from 'oidc-provider'

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const server = createServer()
server.listen(settings.port, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${server.address().port}`
  const provider = new Provider(settings.issuer ?? url, {
    jwks: { keys: settings.keys },
    clients: [
      {
        client_id: settings.client,
        client_secret: settings.secret,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        // Kafka's clients name no resource.
        defaultResource: () => settings.audience,
        getResourceServerInfo: (_, resource) => ({
          audience: resource,
          scope: 'orders',
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
  server.on('request', provider.callback())
  console.log(url)
})
