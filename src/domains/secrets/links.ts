import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import type { LinkField, SecretLink, SecretStore } from './ports.ts'
import { checkValue, parseReference } from './rules.ts'
import type { SecretService } from './service.ts'

type LinkCall = Pick<Call, 'principal' | 'nowMs' | 'read' | 'write' | 'record'>

type CreatingCall = Pick<Call, 'principal' | 'nowMs' | 'origin' | 'transact' | 'record'>
type LinkView = Readonly<{ url: string; expires_at: string }>

/** What becomes of the values of a link of its kind. Answers what to tell the person who entered them. */
type LinkTaker = (call: LinkCall, subject: string, values: Readonly<Record<string, string>>) => Promise<string>

type LinkDeps = Readonly<{
  store: SecretStore
  secrets: SecretService
  random: Random
  /** Committed state. */
  read: ReadTx
  /** An origin at which this process answers, for callers that did not come in through one. */
  origin(): Promise<string>
  isRevoked(tx: ReadTx, tenant: TenantId, owner: string): Promise<boolean>
}>

type LinkRequest = Readonly<{
  kind: string
  subject: string
  title: string
  fields: readonly LinkField[]
  /** Where a page of its own serves the kind, with a token that had to be known before the link was made. */
  at?: Readonly<{ path: string; token: string }>
}>

/** What a page shows of a link. */
type OpenLink = Pick<SecretLink, 'title' | 'fields' | 'principal'>

export type SecretLinks = ReturnType<typeof createSecretLinks>

/** Pages that take values once, so that no model has to see them. The token is in the address and nowhere else. */
export function createSecretLinks(deps: LinkDeps) {
  const { store, random } = deps
  const takers = new Map<string, LinkTaker>([['value', takeValue(deps.secrets)]])

  /** `origin` comes from `originFor`, which is asked before the transaction begins. */
  async function create(
    write: WriteTx,
    { principal, nowMs }: Pick<Call, 'principal' | 'nowMs'>,
    origin: string,
    { at, ...request }: LinkRequest,
  ): Promise<LinkView> {
    const { path, token } = at ?? { path: '/secrets/', token: newToken() }
    const expiresAtMs = nowMs + limits.secretLinkMs
    await store.deleteLinksBefore(write, principal.tenant, nowMs - limits.secretLinkRetentionMs)
    // The page on which a person enters the values is behind no gateway.
    const { gateway: _, ...owner } = principal
    await store.insertLink(write, principal.tenant, {
      tenant: principal.tenant,
      id: randomId(random, 'link'),
      tokenHash: sha256Hex(token),
      principal: owner,
      ...request,
      createdAtMs: nowMs,
      expiresAtMs,
      usedAtMs: null,
    })
    return { url: `${origin}${path}${token}`, expires_at: isoTime(expiresAtMs) }
  }

  const newToken = (): string => random.bytes(32).toString('base64url')

  /** Undefined for whatever is no link that can be used now, whyever. */
  async function find(tx: ReadTx, token: string, nowMs: number): Promise<SecretLink | undefined> {
    const link = await store.findLinkByToken(tx, sha256Hex(token))
    if (link === undefined || link.usedAtMs !== null || link.expiresAtMs <= nowMs) return undefined
    return (await deps.isRevoked(tx, link.tenant, identityOf(link.principal))) ? undefined : link
  }

  /** Of a kind that takes values. */
  async function findForValues(tx: ReadTx, token: string, nowMs: number): Promise<SecretLink | undefined> {
    const link = await find(tx, token, nowMs)
    return link !== undefined && takers.has(link.kind) ? link : undefined
  }

  /** Uses it up for the caller that asked for it. In the same words for one of another caller. */
  async function take(tx: WriteTx, call: Pick<Call, 'principal' | 'nowMs' | 'read'>, link: SecretLink | undefined) {
    const { principal, nowMs } = call
    const isOwn = link?.tenant === principal.tenant && identityOf(link.principal) === identityOf(principal)
    if (!isOwn || !(await store.useLink(tx, link.tenant, link.id, nowMs))) throw linkExpired()
  }

  const originFor = async ({ origin }: Pick<Call, 'origin'>): Promise<string> => origin ?? (await deps.origin())

  return {
    create,
    originFor,
    newToken,
    open: (token: string, nowMs: number): Promise<OpenLink | undefined> => findForValues(deps.read, token, nowMs),

    /** What a link of a kind with a page of its own is for. */
    async openAs(kind: string, token: string, nowMs: number): Promise<SecretLink | undefined> {
      const link = await find(deps.read, token, nowMs)
      return link?.kind === kind ? link : undefined
    },

    /** The same once more, for the caller that asked for the link, and for the last time. */
    async takeAs(
      kind: string,
      tx: WriteTx,
      call: Pick<Call, 'principal' | 'nowMs' | 'read'>,
      token: string,
    ): Promise<SecretLink> {
      const link = await find(call.read, token, call.nowMs)
      await take(tx, call, link?.kind === kind ? link : undefined)
      return link!
    },

    /** A secret without a value, and the link through which it gets one. */
    async createForValue(call: CreatingCall, { purpose }: Readonly<{ purpose: string }>) {
      const { principal, nowMs } = call
      const owner = identityOf(principal)
      const origin = await originFor(call)
      const fields = [{ name: 'value', label: purpose, description: '', secret: true, required: true }]
      const made = await call.transact(async (tx) => {
        const reference = await deps.secrets.put(tx, principal.tenant, { owner, purpose, nowMs })
        const link = await create(tx, call, origin, { kind: 'value', subject: reference, title: purpose, fields })
        return { reference, ...link }
      })
      call.record({ kind: 'secret_created', body: { reference: made.reference, purpose, owner } })
      return made
    },

    async submit(call: LinkCall, input: Readonly<{ token: string; values: Readonly<Record<string, string>> }>) {
      const { principal, nowMs, write } = call
      const link = await findForValues(call.read, input.token, nowMs)
      if (
        link === undefined ||
        link.tenant !== principal.tenant ||
        identityOf(link.principal) !== identityOf(principal)
      ) {
        throw linkExpired()
      }
      const values = checkValues(link.fields, input.values)
      await take(write, call, link)
      const message = await takers.get(link.kind)!(call, link.subject, values)
      call.record({
        kind: 'secret_link_used',
        body: { link: link.id, subject: link.subject, fields: Object.keys(values) },
      })
      return { message }
    },

    /** Once for each kind. */
    onValues(kind: string, taker: LinkTaker): void {
      takers.set(kind, taker)
    },
  }
}

const takeValue =
  (secrets: SecretService): LinkTaker =>
  async (call, subject, values) => {
    const { principal, nowMs, write } = call
    const { name } = parseReference(subject)!
    if (!(await secrets.enter(write, principal.tenant, name, values['value']!, nowMs))) throw linkExpired()
    call.record({ kind: 'secret_entered', body: { reference: subject } })
    return 'The value was saved.'
  }

function checkValues(
  fields: readonly LinkField[],
  input: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const entered = fields.filter(({ name }) => (input[name] ?? '') !== '')
  const missing = fields.find((field) => field.required && !entered.includes(field))
  if (missing !== undefined) {
    throw new AppError('ERR_INVALID_INPUT', `${missing.name}: must not be empty.`, { field: missing.name })
  }
  return Object.fromEntries(entered.map(({ name }) => [name, checkValue(name, input[name]!)]))
}

/** The same words for a link that was never made, was used, or is too old. */
const linkExpired = (): AppError =>
  new AppError('ERR_NOT_FOUND', 'token: this link was used, has expired, or does not exist. Ask for a new one.', {
    field: 'token',
  })
