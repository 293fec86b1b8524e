import type { AfterNewest, PagedRows } from '../../contract/list-page.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** A stored value: encrypted with the key `keyId`, and bound to its tenant and id. */
export type StoredSecret = Readonly<{
  tenant: TenantId
  id: string
  /** The identity that entered it. */
  owner: string
  /** Its purpose in words; never the value or a part of it. */
  purpose: string
  keyId: string
  /** Nonce, ciphertext and tag, in base64; empty until the value is entered. */
  sealed: string
  /** For a session of its owner: it ends with the session, and the owner cannot refer to it. */
  sessionId?: string
  createdAtMs: number
  updatedAtMs: number
}>

/** One value that a link asks for. */
export type LinkField = Readonly<{
  name: string
  label: string
  description: string
  secret: boolean
  required: boolean
}>

/** A page that accepts values once. `subject` tells its `kind` what the values are for. */
export type SecretLink = Readonly<{
  tenant: TenantId
  id: string
  tokenHash: string
  /** The caller on whose behalf the values are saved. */
  principal: Principal
  kind: string
  subject: string
  title: string
  fields: readonly LinkField[]
  createdAtMs: number
  expiresAtMs: number
  usedAtMs: number | null
}>

/** Every method answers for one tenant only, except `findLinkByToken`. */
export type SecretStore = Readonly<{
  /** Replaces what the id had before. */
  putSecret(tx: WriteTx, tenant: TenantId, secret: StoredSecret): Promise<void>
  findSecret(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<StoredSecret | undefined>
  /** Newest first; of one owner, or of all; with the text in their purpose. Secrets of sessions are excluded. */
  listSecrets(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ owner: string | undefined; text?: string | undefined }>,
  ): PagedRows<StoredSecret, AfterNewest>
  /** Secrets of the owner's sessions that last beyond that time, newest first. */
  listOfSessions(tx: ReadTx, tenant: TenantId, owner: string, nowMs: number, limit: number): Promise<StoredSecret[]>
  /** Answers whether it was there. */
  deleteSecret(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  /** Those with a value that is not encrypted with that key, by id, beyond `after`. */
  listOfOtherKeys(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    keyId: string,
    after: string,
    limit: number,
  ): Promise<StoredSecret[]>
  insertLink(tx: WriteTx, tenant: TenantId, link: SecretLink): Promise<void>
  /** Sets `usedAtMs` unless it is set; answers whether this call did it. */
  useLink(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<boolean>
  /** Removes links that ended before that time. */
  deleteLinksBefore(tx: WriteTx, tenant: TenantId, endedBeforeMs: number): Promise<void>
  /** A token is presented before its tenant is known, as with the prefix of a key. */
  findLinkByToken(tx: ReadTx | WriteTx, tokenHash: string): Promise<SecretLink | undefined>
}>

/** Something that needs the secret, by its display name. */
export type SecretUse = Readonly<{
  kind: 'mcp_server' | 'mcp_deployment' | 'provider_key'
  id: string
  name: string
  /** The secret is a part of it: it goes with it, and nothing else may refer to it. */
  owns?: boolean
}>

/** A 256-bit key and its name in stored secrets, which reveals nothing of the key. */
export type SecretKey = Readonly<{ id: string; bytes: Buffer }>

/** The keys of this installation. The first encrypts; the others decrypt what a rotation has not reached. */
export type SecretKeys = Readonly<{
  /** The present keys, even if another process rotated them. Created on first use. */
  load(): Promise<readonly SecretKey[]>
  /** Adds a new key in front; undefined if the operator chooses the keys. */
  add: (() => Promise<void>) | undefined
  /** Removes all but the first. */
  keepFirst: (() => Promise<void>) | undefined
}>

/** Values of `env:NAME` and `file:PATH`; undefined if there is none. */
export type OutsideSecrets = Readonly<{
  variable(name: string): string | undefined
  file(path: string): Promise<string | undefined>
}>
