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

type LinkCall = Pick<Call, 'principal' | 'nowMs' | 'read' | 'write' | 'record' | 'writesTo'>

type CreatingCall = Pick<Call, 'principal' | 'nowMs' | 'origin' | 'transact' | 'record' | 'writesTo' | 'warn'>
type LinkView = Readonly<{ url: string; expires_at: string }>

/** Processes the values of a link of its kind. Returns the message for the person who entered them. */
type LinkTaker = (call: LinkCall, subject: string, values: Readonly<Record<string, string>>) => Promise<string>

type LinkDeps = Readonly<{
  store: SecretStore
  secrets: SecretService
  random: Random
  /** Committed state. */
  read: ReadTx
  /** Where the pages of links are, for callers that did not use an origin. */
  origin(): Promise<string>
  /** What such a caller must know of that origin. */
  warning(): string | undefined
  isRevoked(tx: ReadTx, tenant: TenantId, owner: string): Promise<boolean>
}>

type LinkRequest = Readonly<{
  kind: string
  subject: string
  title: string
  fields: readonly LinkField[]
  /** The path of a separate page for the kind, with a token that had to be known before the link was created. */
  at?: Readonly<{ path: string; token: string }>
}>

/** The displayed part of a link. */
type OpenLink = Pick<SecretLink, 'title' | 'fields' | 'principal'> & Readonly<{ readers: string | undefined }>

export type SecretLinks = ReturnType<typeof createSecretLinks>

/** Pages that accept values once, so that no model has to see them. The token is only in the address. */
export function createSecretLinks(deps: LinkDeps) {
  const { store, random } = deps
  const takers = new Map<string, LinkTaker>([['value', takeValue(deps.secrets)]])
  const readersOf = new Map<string, string>()

  /** `origin` comes from `originFor`, which is called before the transaction begins. */
  async function create(
    write: WriteTx,
    call: Pick<Call, 'principal' | 'nowMs' | 'origin' | 'warn'>,
    origin: string,
    { at, ...request }: LinkRequest,
  ): Promise<LinkView> {
    const { principal, nowMs } = call
    const warning = call.origin === undefined ? deps.warning() : undefined
    if (warning !== undefined) call.warn(warning)
    const { path, token } = at ?? { path: '/secrets/', token: newToken() }
    const expiresAtMs = nowMs + limits.secretLinkMs
    await store.deleteLinksBefore(write, principal.tenant, nowMs - limits.secretLinkRetentionMs)
    // The page for entering values is behind no gateway.
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

  /** Undefined for anything but a usable link, whatever the reason. */
  async function find(tx: ReadTx, token: string, nowMs: number): Promise<SecretLink | undefined> {
    const link = await store.findLinkByToken(tx, sha256Hex(token))
    if (link === undefined || link.usedAtMs !== null || link.expiresAtMs <= nowMs) return undefined
    return (await deps.isRevoked(tx, link.tenant, identityOf(link.principal))) ? undefined : link
  }

  /** For a kind that accepts values. */
  async function findForValues(tx: ReadTx, token: string, nowMs: number): Promise<SecretLink | undefined> {
    const link = await find(tx, token, nowMs)
    return link !== undefined && takers.has(link.kind) ? link : undefined
  }

  /** Uses it up for the caller that requested it. The same message for another caller's. */
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
    async open(token: string, nowMs: number): Promise<OpenLink | undefined> {
      const link = await findForValues(deps.read, token, nowMs)
      return link && { ...link, readers: readersOf.get(link.kind) }
    },

    /** The purpose of a link of a kind with a separate page. */
    async openAs(kind: string, token: string, nowMs: number): Promise<SecretLink | undefined> {
      const link = await find(deps.read, token, nowMs)
      return link?.kind === kind ? link : undefined
    },

    /** The same once more, for the requesting caller, and for the last time. */
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

    /** A secret without a value, and the link for entering it. */
    async createForValue(call: CreatingCall, { purpose }: Readonly<{ purpose: string }>) {
      const { principal, nowMs } = call
      const owner = identityOf(principal)
      const origin = await originFor(call)
      const fields = [{ name: 'value', label: purpose, description: '', secret: true, required: true }]
      const reference = deps.secrets.newReference()
      await call.writesTo?.(reference)
      const made = await call.transact(async (tx) => {
        await deps.secrets.put(tx, principal.tenant, { reference, owner, purpose, nowMs })
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

    /** Once for each kind. `readers` says who sees the values, in the words of the page; without it they are secrets. */
    onValues(kind: string, taker: LinkTaker, readers?: string): void {
      takers.set(kind, taker)
      if (readers !== undefined) readersOf.set(kind, readers)
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

/** The same message for a link that never existed, was used, or has expired. */
const linkExpired = (): AppError =>
  new AppError('ERR_NOT_FOUND', 'token: this link was used, has expired, or does not exist. Ask for a new one.', {
    field: 'token',
  })
