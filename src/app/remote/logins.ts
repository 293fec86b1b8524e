import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { type Environment, loginsDir } from '../config-paths.ts'

/** A sign-in to a remote server, in a file that only its user can read. */
export type Login = Readonly<{
  /** The address that the tokens are for. */
  resource: string
  clientId: string
  tokenEndpoint: string
  revocationEndpoint: string
  accessToken: string
  refreshToken: string
  expiresAtMs: number
  /** The file of the server's certificate authority, if one was named. */
  ca?: string
}>

const textFields = [
  'resource',
  'clientId',
  'tokenEndpoint',
  'revocationEndpoint',
  'accessToken',
  'refreshToken',
] as const

export const loginPath = (env: Environment, resource: string, ending: 'json' | 'lock' = 'json'): string =>
  join(loginsDir(env), `${sha256Hex(resource).slice(0, 32)}.${ending}`)

/** Undefined if there is none. A file that others can read, or that is damaged, is refused. */
export function readLogin(env: Environment, resource: string): Login | undefined {
  const login = readLoginFile(loginPath(env, resource))
  return login?.resource === resource ? login : undefined
}

export function listLogins(env: Environment): Login[] {
  let names: string[]
  try {
    names = readdirSync(loginsDir(env))
  } catch {
    return []
  }
  return names
    .filter((name) => name.endsWith('.json'))
    .flatMap((name) => readLoginFile(join(loginsDir(env), name)) ?? [])
}

function readLoginFile(path: string): Login | undefined {
  let content: string
  try {
    const { mode, size } = statSync(path)
    if ((mode & 0o077) !== 0) throw unusable(path, 'can be read by others')
    if (size > remoteLimits.loginFileBytesMax) throw unusable(path, 'is too large')
    content = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const login = parsed(content)
  if (textFields.some((field) => typeof login[field] !== 'string') || typeof login['expiresAtMs'] !== 'number') {
    throw unusable(path, 'is damaged')
  }
  return login as unknown as Login
}

function parsed(content: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(content)) as Record<string, unknown>
  } catch {
    return {}
  }
}

const unusable = (path: string, problem: string): AppError =>
  new AppError(
    'ERR_INIT_FAILED',
    `The file ${path} ${problem}, but it contains a sign-in. Remove it, then sign in again with castellan login.`,
    { path },
  )

export async function writeLogin(env: Environment, login: Login): Promise<void> {
  const { writeFileAtomically } = await import('../../stores/files/atomic-file.ts')
  await writeFileAtomically(loginPath(env, login.resource), `${JSON.stringify(login)}\n`, { durable: true })
}

export const removeLogin = (env: Environment, resource: string): void =>
  rmSync(loginPath(env, resource), { force: true })
