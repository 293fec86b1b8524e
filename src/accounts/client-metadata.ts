import type { ClientDiscovery, OAuthOptions, SchemaClient, Scope } from '@better-auth/oauth-provider'
import { registerClientMetadataDocument } from '@better-auth/oauth-provider/internal'
import { APIError } from 'better-auth/api'
import { limits } from '../contract/limits.ts'
import type { Clock } from '../kernel/clock.ts'
import { withStandIns } from './editor-redirects.ts'

/** `fetch` for untrusted addresses: each is checked, and no redirect is followed. */
export type JudgedFetch = (url: string, init: RequestInit) => Promise<Response>

type ClientDocument = Readonly<{ client_name: string; client_uri: string | undefined; redirect_uris: string[] }>

const DISCOVERY_ID = 'client-id-metadata-document'

/**
 * Clients whose `client_id` is the https address of a document that describes them (OAuth Client ID Metadata Document). The
 * document is read again after an hour; if it cannot be reached then, the cached one is valid for a day.
 */
export function createClientDiscovery(
  { fetchDocument, clock }: Readonly<{ fetchDocument: JudgedFetch; clock: Pick<Clock, 'nowMs'> }>,
  options: () => OAuthOptions<Scope[]>,
): ClientDiscovery {
  let fetching = 0

  async function read(url: string): Promise<unknown> {
    if (fetching >= limits.clientDocumentsAtOnce) throw new Error('too many documents are being fetched')
    fetching++
    try {
      const signal = AbortSignal.timeout(limits.clientDocumentFetchMs)
      const response = await fetchDocument(url, { headers: { accept: 'application/json' }, signal })
      if (response.status !== 200) throw new Error(`status ${response.status}`)
      return await readBounded(response, limits.clientDocumentBytesMax)
    } finally {
      fetching--
    }
  }

  return {
    id: DISCOVERY_ID,
    matches: isDocumentAddress,
    discoveryMetadata: { client_id_metadata_document_supported: true },
    async resolve(ctx, clientId, existing) {
      const ageMs = existing === null ? Number.POSITIVE_INFINITY : clock.nowMs() - timeOf(existing)
      if (ageMs < limits.clientDocumentFreshMs) return existing
      let text: unknown
      try {
        text = await read(clientId)
      } catch {
        if (ageMs < limits.clientDocumentStaleMs) return existing
        throw refused('the document at client_id cannot be read')
      }
      const metadata = checkDocument(clientId, text)
      const { client } = await registerClientMetadataDocument(ctx, options(), {
        metadata: {
          ...metadata,
          redirect_uris: withStandIns(metadata.redirect_uris),
          client_id: clientId,
          token_endpoint_auth_method: 'none',
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          application_type: metadata.redirect_uris.every((uri) => uri.startsWith('https:')) ? 'web' : 'native',
        } as never,
        clientId,
        clientDiscoveryId: DISCOVERY_ID,
        ...(existing === null ? {} : { existingClient: existing }),
      })
      return client
    },
  }
}

/** An https address with a path, in a form that names a document uniquely. */
export function isDocumentAddress(clientId: string): boolean {
  if (!clientId.startsWith('https://') || clientId.length > limits.clientIdCharsMax) return false
  const url = URL.parse(clientId)
  if (url === null || url.href !== clientId || url.pathname === '/') return false
  return url.username === '' && url.password === '' && url.hash === ''
}

/** Throws for a document that does not describe a public client. Its other members are ignored. */
function checkDocument(clientId: string, document: unknown): ClientDocument {
  const fields = (typeof document === 'object' && document !== null ? document : {}) as Record<string, unknown>
  if (fields['client_id'] !== clientId) throw refused('client_id in the document must be the address of the document')
  if ('client_secret' in fields || 'client_secret_expires_at' in fields) {
    throw refused('the document must not contain a secret, because everyone can read it')
  }
  const method = fields['token_endpoint_auth_method'] ?? 'none'
  if (method !== 'none') throw refused('token_endpoint_auth_method must be none: only public clients are supported')
  const uris = fields['redirect_uris']
  const isList = Array.isArray(uris) && uris.length > 0 && uris.length <= limits.clientRedirectsMax
  if (!isList || !uris.every((uri) => typeof uri === 'string' && uri.length <= limits.clientIdCharsMax)) {
    throw refused(`redirect_uris must be a list of 1 to ${limits.clientRedirectsMax} addresses`)
  }
  const { client_name: name, client_uri: uri } = fields
  return {
    client_name: typeof name === 'string' && name.trim() !== '' ? name.slice(0, 128) : new URL(clientId).host,
    client_uri: typeof uri === 'string' && uri.startsWith('https://') ? uri.slice(0, 2_048) : undefined,
    redirect_uris: uris,
  }
}

async function readBounded(response: Response, bytesMax: number): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > bytesMax) throw new Error('the document is too large')
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'))
}

const timeOf = ({ updatedAt, createdAt }: SchemaClient<Scope[]>): number =>
  new Date(updatedAt ?? createdAt ?? 0).getTime()

const refused = (description: string): APIError =>
  new APIError('BAD_REQUEST', { error: 'invalid_client', error_description: description })
