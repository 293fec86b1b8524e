import type { Principal, TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** A value as it is stored: encrypted with the key `keyId`, and bound to its tenant and id. */
export type StoredSecret = Readonly<{
  tenant: TenantId
  id: string
  /** The identity that entered it. */
  owner: string
  /** What it is for, in words; never the value or a part of it. */
  purpose: string
  keyId: string
  /** Nonce, ciphertext and tag, in base64; empty until the value is entered. */
  sealed: string
  /** Of a session of its owner: it goes with the session, and nothing that the owner makes may refer to it. */
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

/** A page that takes values once. `subject` says to its `kind` what the values are for. */
export type SecretLink = Readonly<{
  tenant: TenantId
  id: string
  tokenHash: string
  /** On whose behalf the values are saved. */
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
  /** Newest first; of one owner, or of all. Those of sessions are not among them. */
  listSecrets(tx: ReadTx, tenant: TenantId, owner: string | undefined, limit: number): Promise<StoredSecret[]>
  /** Those of the sessions of the owner that last beyond that time, newest first. */
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
  /** A caller that opens a link shows its token before anyone knows whose it is, as with the prefix of a key. */
  findLinkByToken(tx: ReadTx | WriteTx, tokenHash: string): Promise<SecretLink | undefined>
}>

/** Something that would not work any more without the secret, by what people call it. */
export type SecretUse = Readonly<{ kind: 'mcp_server' | 'mcp_deployment'; id: string; name: string }>

/** A key of 256 bits and the name that stored secrets know it by, which tells nothing of the key. */
export type SecretKey = Readonly<{ id: string; bytes: Buffer }>

/** The keys of this installation. The first encrypts; the others decrypt what a rotation has not reached. */
export type SecretKeys = Readonly<{
  /** As they are now, also when another process rotated them. Made on first use. */
  load(): Promise<readonly SecretKey[]>
  /** Puts a new key first; undefined where the keys are the operator's to choose. */
  add: (() => Promise<void>) | undefined
  /** Removes all but the first. */
  keepFirst: (() => Promise<void>) | undefined
}>

/** Where `env:NAME` and `file:PATH` lead; undefined when there is nothing there. */
export type OutsideSecrets = Readonly<{
  variable(name: string): string | undefined
  file(path: string): Promise<string | undefined>
}>
