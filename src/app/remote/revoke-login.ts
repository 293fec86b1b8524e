import { AppError } from '../../contract/app-error.ts'
import type { HttpClient } from './http-client.ts'
import type { Login } from './logins.ts'
import { askJson } from './token-endpoint.ts'

/** Ends a sign-in at the server: the refresh token, and its access tokens. Throws if it may still be valid. */
export async function revokeLogin(http: HttpClient, login: Login): Promise<void> {
  const { status } = await askJson(http, login.revocationEndpoint, {
    form: { client_id: login.clientId, token: login.refreshToken, token_type_hint: 'refresh_token' },
  })
  if (status === 200) return
  const { origin } = new URL(login.revocationEndpoint)
  throw new AppError('ERR_WEB_FAILED', `${origin} did not end the sign-in (HTTP ${status}).`, { origin, status })
}
