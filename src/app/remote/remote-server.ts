import { readFileSync } from 'node:fs'
import { AppError } from '../../contract/app-error.ts'
import type { Environment } from '../config-paths.ts'
import type { Credential } from './credential.ts'
import { createHttpClient, type HttpClient } from './http-client.ts'
import { type Login, readLogin } from './logins.ts'
import { type RemoteLines, remoteLines } from './remote-lines.ts'
import { parseAddress, type ServerAddress } from './server-address.ts'

/** The server of a command, and the source of that choice. */
export type RemoteChoice = Readonly<{
  url: string
  key: string | undefined
  /** A file of certificates, as an absolute path. */
  ca: string | undefined
  allowPlainHttp: boolean
}>

export type RemoteServer = Readonly<{
  address: ServerAddress
  http: HttpClient
  credential: Credential
  /** `query` chooses the tools, as in a client's address. */
  openLines(query: Readonly<Record<string, string>>, isFor: 'program' | 'person'): RemoteLines
}>

/** A given key is used; without one, the sign-in to that server, if there is one. */
export async function openRemoteServer(choice: RemoteChoice, env: Environment): Promise<RemoteServer> {
  const address = parseAddress(choice.url, choice)
  const login = choice.key === undefined ? readLogin(env, address.resource) : undefined
  const ca = choice.ca ?? login?.ca
  const http = createHttpClient(ca === undefined ? {} : { ca: readAuthorities(ca) })
  const credential = login === undefined ? keyCredential(choice) : await storedCredential(env, http, login)
  return {
    address,
    http,
    credential,
    openLines(query, isFor) {
      const endpoint = new URL(address.resource)
      for (const [name, value] of Object.entries(query)) endpoint.searchParams.set(name, value)
      return remoteLines({ http, credential, origin: address.origin, endpoint: endpoint.href, isFor })
    },
  }
}

export function readAuthorities(path: string): string {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code
    throw new AppError('ERR_INVALID_INPUT', `ca: the file ${path} cannot be read (${reason}).`, { field: 'ca' })
  }
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text
  throw new AppError('ERR_INVALID_INPUT', `ca: the file ${path} contains no PEM certificate.`, { field: 'ca' })
}

async function storedCredential(env: Environment, http: HttpClient, login: Login): Promise<Credential> {
  const { loginCredential } = await import('./login-credential.ts')
  return loginCredential(env, http, login)
}

const keyCredential = ({ key, url }: RemoteChoice): Credential => ({
  token: async () => key,
  renew: async () => false,
  refusal: (origin) =>
    new AppError(
      'ERR_UNAUTHENTICATED',
      key === undefined
        ? `${origin} requires authentication. Sign in with: castellan login --url ${url}; or pass an API key with --key or CASTELLAN_API_KEY.`
        : `${origin} does not accept this API key. Pass another one with --key or CASTELLAN_API_KEY.`,
      { origin },
    ),
})
