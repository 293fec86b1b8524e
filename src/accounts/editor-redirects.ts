import type { BetterAuthPlugin } from 'better-auth'
import { createAuthMiddleware } from 'better-auth/api'

/**
 * Where editors have a person's code sent that are known by these addresses, in exactly this spelling. The library accepts only
 * private-use schemes that are domain names (RFC 8252, 7.1), and these are not. Any program on the machine can claim such a scheme,
 * as it can claim a port: what it gets is worth nothing without the verifier of PKCE, and the person is asked each time.
 */
const EDITOR_REDIRECTS = ['cursor://anysphere.cursor-mcp/oauth/callback', 'warp://mcp/oauth2callback']

/** Of the form that the library accepts. It is checked in the place of the address, and never stored. */
const STAND_IN = 'castellan.known:/'

export const withStandIns = (uris: readonly string[]): string[] =>
  uris.map((uri) => (EDITOR_REDIRECTS.includes(uri) ? `${STAND_IN}${EDITOR_REDIRECTS.indexOf(uri)}` : uri))

const withoutStandIns = (uris: readonly string[]): string[] =>
  uris.map((uri) => EDITOR_REDIRECTS.find((_, index) => uri === `${STAND_IN}${index}`) ?? uri)

/** In a registration, the addresses of editors pass the check of the library. */
export const editorRegistrations = (): BetterAuthPlugin => ({
  id: 'castellan-editors',
  hooks: {
    before: [
      {
        matcher: ({ path }) => path === '/oauth2/register',
        handler: createAuthMiddleware(async ({ body }) => {
          const uris: unknown = body?.redirect_uris
          if (!Array.isArray(uris)) return
          return { context: { body: { redirect_uris: withStandIns(uris) } } }
        }),
      },
    ],
  },
})

/** The addresses themselves are stored, so that everything after the registration compares those. */
export function storingEditorRedirects(provider: BetterAuthPlugin): BetterAuthPlugin {
  const { oauthClient, ...tables } = provider.schema!
  const { redirectUris, ...fields } = oauthClient!.fields
  const input = (value: unknown) => (Array.isArray(value) ? withoutStandIns(value as string[]) : value)
  const stored = { ...redirectUris!, transform: { input } } as typeof redirectUris & object
  return {
    ...provider,
    schema: { ...tables, oauthClient: { ...oauthClient, fields: { ...fields, redirectUris: stored } } },
  }
}
