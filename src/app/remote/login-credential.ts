import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { systemClock } from '../../kernel/clock.ts'
import type { Environment } from '../config-paths.ts'
import type { Credential } from './credential.ts'
import type { HttpClient } from './http-client.ts'
import type { Login } from './logins.ts'

/** The tokens of a stored sign-in, renewed shortly before they expire and whenever the server refuses one. */
export function loginCredential(env: Environment, http: HttpClient, stored: Login): Credential {
  const { resource } = stored
  let login: Login | undefined = stored
  let renewing: Promise<void> | undefined

  async function renewFrom(refused: string): Promise<void> {
    const { renewLogin } = await import('./renew-login.ts')
    login = await renewLogin(env, http, resource, refused)
  }

  /** Once for all concurrent requests of this process. */
  async function renewOnce(refused: string): Promise<void> {
    if (login !== undefined && login.accessToken !== refused) return
    renewing ??= renewFrom(refused).finally(() => {
      renewing = undefined
    })
    await renewing
  }

  const isExpiring = ({ expiresAtMs }: Login): boolean => expiresAtMs - systemClock.nowMs() < remoteLimits.tokenRenewMs

  return {
    async token() {
      if (login !== undefined && isExpiring(login)) await renewOnce(login.accessToken)
      return login?.accessToken
    },
    async renew(refused) {
      if (refused === undefined) return false
      await renewOnce(refused)
      return login !== undefined
    },
    refusal: (origin) => {
      const url = resource === `${origin}/mcp` ? origin : resource
      return new AppError(
        'ERR_UNAUTHENTICATED',
        `Your sign-in to ${origin} has ended. Sign in again with: castellan login --url ${url}`,
        { origin },
      )
    },
  }
}
