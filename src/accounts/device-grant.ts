import {
  DEVICE_CODE_GRANT_TYPE,
  getOAuthProviderApi,
  type OAuthOptions,
  type OAuthProviderExtension,
  type Scope,
} from '@better-auth/oauth-provider'
import type { BetterAuthPlugin } from 'better-auth'
import { APIError, createAuthEndpoint } from 'better-auth/api'
import { AppError } from '../contract/app-error.ts'

/** Terminals that wait for a person, kept by the domain. */
export type DeviceGrants = Readonly<{
  start(
    request: Readonly<{
      clientId: string
      scopes: readonly string[]
      resources: readonly string[]
      address: string
    }>,
  ): Promise<Readonly<{ deviceCode: string; userCode: string; expiresInMs: number; intervalMs: number }>>
  redeem(
    deviceCode: string,
    clientId: string,
  ): Promise<
    Readonly<{ error: string }> | Readonly<{ userId: string; scopes: readonly string[]; resources: readonly string[] }>
  >
}>

/** The endpoint, below `/auth`. */
const REQUEST_PATH = '/oauth2/device_authorization'
/** The page on which a person types the code of a terminal. */
const VERIFICATION_PATH = '/device'

const descriptions: Readonly<Record<string, string>> = {
  authorization_pending: 'The person has not answered yet.',
  slow_down: 'Wait five seconds longer between two requests.',
  access_denied: 'The person did not allow it.',
  expired_token: 'The code has expired. Start again.',
  invalid_grant: 'The code is unknown, was used, or belongs to another client.',
}

const refused = (error: string, error_description: string): APIError =>
  new APIError('BAD_REQUEST', { error, error_description })

/**
 * The device authorization grant (RFC 8628). The library's own plugin stores the codes in plain text, lists no consent and does not
 * slow wrong codes, so codes are the domain's; clients and tokens are the library's, and the same as those of the other grants.
 */
export const deviceGrant = (devices: DeviceGrants): OAuthProviderExtension => ({
  grants: {
    async [DEVICE_CODE_GRANT_TYPE]({ ctx, provider }) {
      const { client } = await provider.authenticateClient({ requireCredentials: false })
      const deviceCode: unknown = ctx.body?.device_code
      if (typeof deviceCode !== 'string' || deviceCode === '')
        throw refused('invalid_request', 'device_code is missing.')
      const redeemed = await devices.redeem(deviceCode, client.clientId)
      if ('error' in redeemed) throw refused(redeemed.error, descriptions[redeemed.error] ?? '')
      const user = await ctx.context.internalAdapter.findUserById(redeemed.userId)
      if (user === null) throw refused('invalid_grant', descriptions['invalid_grant']!)
      const { scopes, resources } = redeemed
      return await provider.issueTokens({ client, user, scopes: [...scopes], resources: [...resources] })
    },
  },
  metadata: ({ ctx }) => ({ device_authorization_endpoint: `${ctx.context.baseURL}${REQUEST_PATH}` }),
})

/** The library takes any other error for a fault of its own. */
function asOauth(error: unknown): never {
  if (!(error instanceof AppError)) throw error
  throw new APIError('SERVICE_UNAVAILABLE', { error: 'temporarily_unavailable', error_description: error.message })
}

/** Our own route is the only sender: it has added the scope and checked the resources. */
type Requested = Readonly<{ scope: string; resource: readonly string[] }>

/** The endpoint at which a terminal asks for its codes. */
export const deviceRequests = (devices: DeviceGrants, addressHeader: string): BetterAuthPlugin =>
  ({
    id: 'castellan-devices',
    endpoints: {
      deviceAuthorization: createAuthEndpoint(REQUEST_PATH, { method: 'POST' }, async (ctx) => {
        const options = ctx.context.getPlugin('oauth-provider')!.options as OAuthOptions<Scope[]>
        const api = getOAuthProviderApi(ctx, options, DEVICE_CODE_GRANT_TYPE)
        const { scope: requested, resource: resources } = ctx.body as Requested
        const scopes = requested.split(' ').filter((scope) => scope !== '')
        // A client that registered without scopes may ask for each that there is.
        const unknown = scopes.filter((scope) => !options.scopes?.includes(scope))
        if (unknown.length > 0) throw refused('invalid_scope', 'scope: names one that this server does not have.')
        const { clientId } = await api.authenticateClient({ scopes, requireCredentials: false })
        const address = ctx.headers?.get(addressHeader) ?? ''
        const started = await devices.start({ clientId, scopes, resources, address }).catch(asOauth)
        return ctx.json({
          device_code: started.deviceCode,
          user_code: started.userCode,
          verification_uri: new URL(VERIFICATION_PATH, ctx.context.baseURL).href,
          expires_in: started.expiresInMs / 1000,
          interval: started.intervalMs / 1000,
        })
      }),
    },
  }) as unknown as BetterAuthPlugin
