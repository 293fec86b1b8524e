import { mkdirSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { systemClock } from '../../kernel/clock.ts'
import { type Environment, loginsDir } from '../config-paths.ts'
import { type OwnerLock, tryFileLock } from '../ownership/owner-lock.ts'
import type { HttpClient } from './http-client.ts'
import { type Login, loginPath, readLogin, writeLogin } from './logins.ts'
import { requestTokens } from './token-endpoint.ts'

const LOCK_PAUSE_MS = 50

/** Only one process at a time changes a sign-in: a refresh token works once, and a second use ends the sign-in. */
export async function withLoginLock<T>(env: Environment, resource: string, work: () => Promise<T>): Promise<T> {
  const lock = await takeLock(env, resource)
  try {
    return await work()
  } finally {
    lock.release()
  }
}

async function takeLock(env: Environment, resource: string): Promise<OwnerLock> {
  mkdirSync(loginsDir(env), { recursive: true, mode: 0o700 })
  const file = loginPath(env, resource, 'lock')
  const deadlineMs = systemClock.monotonicMs() + remoteLimits.loginLockMs
  for (;;) {
    const lock = tryFileLock(file)
    if (lock !== undefined) return lock
    if (systemClock.monotonicMs() > deadlineMs) {
      const message = `Another process holds the lock ${file} on the sign-in. End it, then call again.`
      throw new AppError('ERR_BUSY', message, { path: file })
    }
    await delay(LOCK_PAUSE_MS)
  }
}

/** The sign-in with another access token than `refused`; undefined if it has ended or was removed. */
export const renewLogin = (
  env: Environment,
  http: HttpClient,
  resource: string,
  refused: string,
): Promise<Login | undefined> =>
  withLoginLock(env, resource, async () => {
    const login = readLogin(env, resource)
    // Another process was faster.
    if (login === undefined || login.accessToken !== refused) return login
    const tokens = await requestTokens(http, login.tokenEndpoint, {
      grant_type: 'refresh_token',
      client_id: login.clientId,
      refresh_token: login.refreshToken,
      resource,
    })
    if (tokens === undefined) return undefined
    const { accessToken, refreshToken, lifetimeMs } = tokens
    const renewed = { ...login, accessToken, refreshToken, expiresAtMs: systemClock.nowMs() + lifetimeMs }
    await writeLogin(env, renewed)
    return renewed
  })
