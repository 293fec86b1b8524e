import { hostname } from 'node:os'
import { AppError } from '../../contract/app-error.ts'
import { systemClock } from '../../kernel/clock.ts'
import type { AuthorizationServer } from './discover.ts'
import type { HttpClient } from './http-client.ts'
import type { Login } from './logins.ts'
import { askJson, type Tokens } from './token-endpoint.ts'

/** `terminal`: the person answers approvals and changes rules here, as at a terminal of the server. */
export const SCOPE = 'offline_access terminal'

/** Registers this program for one sign-in, by the grants in `use`. Returns its id. */
export async function registerClient(
  http: HttpClient,
  server: AuthorizationServer,
  use: Readonly<{
    grant_types: readonly string[]
    response_types: readonly string[]
    redirect_uris?: readonly string[]
  }>,
): Promise<string> {
  const json = {
    client_name: `castellan login on ${hostname()}`.slice(0, 64),
    application_type: 'native',
    token_endpoint_auth_method: 'none',
    scope: SCOPE,
    ...use,
  }
  const { status, body } = await askJson(http, server.registrationEndpoint, { json })
  const { client_id } = body
  if (status >= 200 && status < 300 && typeof client_id === 'string') return client_id
  throw signInFailed(new URL(server.issuer).origin, `the server did not register this program (HTTP ${status})`)
}

export function loginOf(
  { tokenEndpoint, revocationEndpoint }: AuthorizationServer,
  { resource, clientId, tokens }: Readonly<{ resource: string; clientId: string; tokens: Tokens }>,
): Login {
  const { accessToken, refreshToken, lifetimeMs } = tokens
  const expiresAtMs = systemClock.nowMs() + lifetimeMs
  return { resource, clientId, tokenEndpoint, revocationEndpoint, accessToken, refreshToken, expiresAtMs }
}

export const notAllowed = (origin: string): AppError =>
  new AppError('ERR_PERMISSION_DENIED', `You did not allow Castellan to act for you at ${origin}.`, { origin })

export const signInFailed = (origin: string, reason: string): AppError =>
  new AppError('ERR_WEB_FAILED', `Signing in to ${origin} failed: ${reason}. Try again.`, { origin })
