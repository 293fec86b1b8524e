import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { listPage, newestFirst, type PageInput } from '../../contract/list-page.ts'
import { administers } from '../../contract/permissions.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import type { SecretLinks } from '../secrets/links.ts'
import type { Catalog } from './catalog.ts'
import { invalid, requireAddress } from './config-rules.ts'
import type { InstallationRequest, InstallationRequestStore, RequestedServer } from './ports.ts'

type InstallationRequestDeps = Readonly<{
  store: InstallationRequestStore
  links: Pick<SecretLinks, 'create' | 'originFor' | 'onValues'>
  catalog: Pick<Catalog, 'find'>
  random: Random
}>

type RequestInput = Readonly<{
  name?: string | undefined
  reason?: string | undefined
  serverUrl?: string | undefined
  repository?: string | undefined
  catalogId?: string | undefined
}>

const LINK_KIND = 'mcp_installation_request'

const fields = [
  { name: 'name', label: 'Name of the MCP server', description: '', secret: false, required: true },
  {
    name: 'serverUrl',
    label: 'Address',
    description: 'Of a remote server, if you know it.',
    secret: false,
    required: false,
  },
  { name: 'repository', label: 'Repository', description: 'Where its source is.', secret: false, required: false },
  { name: 'reason', label: 'What you need it for', description: '', secret: false, required: false },
] as const

export type InstallationRequests = ReturnType<typeof createInstallationRequests>

/** Members' requests for servers that an administrator adds to the registry. */
export function createInstallationRequests(deps: InstallationRequestDeps) {
  const { store } = deps
  deps.links.onValues(
    LINK_KIND,
    async (call, _subject, values) => {
      const input = values as RequestInput & { name: string }
      requireUsable(input)
      const request = await insert(call.write, call, input)
      call.record({ kind: 'mcp_installation_requested', body: recordOf(request) })
      return `Your request for ${request.server.name} was sent.`
    },
    'Administrators see what you enter, also through a model. Enter no secret here.',
  )

  async function insert(
    tx: WriteTx,
    call: Pick<Call, 'principal' | 'nowMs' | 'writesTo'>,
    input: RequestInput & Readonly<{ name: string }>,
  ): Promise<InstallationRequest> {
    const { principal, nowMs } = call
    const { tenant } = principal
    if ((await store.countRequests(tx, tenant)) >= limits.mcpInstallationRequestsMax) {
      throw new AppError('ERR_QUOTA_EXCEEDED', 'There are too many installation requests. Ask an administrator.')
    }
    const request: InstallationRequest = {
      tenant,
      id: randomId(deps.random, 'req'),
      author: identityOf(principal),
      server: requestedServerOf(input),
      status: 'pending',
      notes: [],
      decidedBy: null,
      decidedAtMs: null,
      createdAtMs: nowMs,
    }
    await call.writesTo?.(`request:${request.id}`, tx)
    await store.insertRequest(tx, tenant, request)
    return request
  }

  /** Without anything there is no request yet: a person describes it on a page. A server of the registry has a name. */
  async function create(call: Call, input: RequestInput) {
    requireUsable(input)
    const item =
      input.catalogId === undefined
        ? undefined
        : await deps.catalog.find(call.read, call.principal, input.catalogId, 'catalogId')
    const name = input.name ?? item?.name
    const origin = await deps.links.originFor(call)
    if (name === undefined) {
      if (Object.values(input).some((value) => value !== undefined)) {
        throw invalid('name', 'give it with the other fields, or leave all of them out for a link to a page')
      }
      const request = { kind: LINK_KIND, subject: '', title: 'Ask for an MCP server', fields }
      const link = await call.transact((tx) => deps.links.create(tx, call, origin, request))
      return { request: null, link, message: 'Give the link to the person who wants the server.' }
    }
    const request = await call.transact((tx) => insert(tx, call, { ...input, name, catalogId: item?.id }))
    call.record({ kind: 'mcp_installation_requested', body: recordOf(request) })
    return { request: viewOf(request), message: `The request for ${name} waits for an administrator.` }
  }

  async function list(
    { principal, read }: Pick<Call, 'principal' | 'read'>,
    input: PageInput & Readonly<{ status?: InstallationRequest['status'] | undefined }>,
  ) {
    const author = administers(principal, 'mcpServerInstallationRequest') ? undefined : identityOf(principal)
    const found = store.listRequests(read, principal.tenant, { author, status: input.status })
    const { rows, page } = await listPage(input, newestFirst, found)
    return { requests: rows.map(viewOf), ...page }
  }

  async function find(tx: ReadTx | WriteTx, principal: Principal, id: string): Promise<InstallationRequest> {
    const found = await store.findRequest(tx, principal.tenant, id)
    const isOwn = found?.author === identityOf(principal)
    if (found !== undefined && (isOwn || administers(principal, 'mcpServerInstallationRequest'))) return found
    throw new AppError('ERR_NOT_FOUND', 'There is no such installation request that you can see.', {
      id: id.slice(0, 128).toWellFormed(),
    })
  }

  type Writing = Pick<Call, 'principal' | 'nowMs' | 'write' | 'record'>

  async function addNote(call: Writing, { id, note }: Readonly<{ id: string; note: string }>) {
    const { principal, write } = call
    const changed = withNote(call, await find(write, principal, id), note)
    await store.saveRequest(write, principal.tenant, changed)
    call.record({ kind: 'mcp_installation_request_noted', body: { id, author: identityOf(principal) } })
    return { request: viewOf(changed) }
  }

  /** Approving says that the server may be added; create_mcp_server adds it. A decision can be changed. */
  async function decide(
    call: Writing,
    { id, decision, note }: Readonly<{ id: string; decision: 'approved' | 'declined'; note?: string | undefined }>,
  ) {
    const { principal, nowMs, write } = call
    const before = await find(write, principal, id)
    const noted = note === undefined ? before : withNote(call, before, note)
    const changed = { ...noted, status: decision, decidedBy: identityOf(principal), decidedAtMs: nowMs }
    await store.saveRequest(write, principal.tenant, changed)
    call.record({
      kind: 'mcp_installation_request_decided',
      body: { ...recordOf(changed), decided_by: changed.decidedBy },
    })
    return { request: viewOf(changed) }
  }

  return { create, list, addNote, decide }
}

const REPOSITORY_PROTOCOLS = ['https:', 'http:', 'ssh:', 'git:']

/** An administrator follows these addresses. */
function requireUsable({ serverUrl = '', repository = '' }: RequestInput): void {
  if (serverUrl !== '') requireAddress({ serverUrl })
  const url = URL.parse(repository)
  if (url !== null && !REPOSITORY_PROTOCOLS.includes(url.protocol)) {
    throw invalid('repository', 'must be an address that begins with https://, http://, ssh:// or git://')
  }
}

function withNote(
  { principal, nowMs }: Pick<Call, 'principal' | 'nowMs'>,
  request: InstallationRequest,
  text: string,
): InstallationRequest {
  if (request.notes.length >= limits.mcpRequestNotesMax) {
    throw new AppError('ERR_QUOTA_EXCEEDED', `note: a request has at most ${limits.mcpRequestNotesMax} notes.`)
  }
  return { ...request, notes: [...request.notes, { author: identityOf(principal), text, atMs: nowMs }] }
}

const requestedServerOf = (input: RequestInput & Readonly<{ name: string }>): RequestedServer => ({
  name: input.name,
  reason: input.reason ?? null,
  serverUrl: input.serverUrl || null,
  repository: input.repository || null,
  catalogId: input.catalogId ?? null,
})

const recordOf = ({ id, author, server, status }: InstallationRequest) => ({ id, author, status, ...server })

const viewOf = (request: InstallationRequest) => ({
  id: request.id,
  author: request.author,
  ...request.server,
  status: request.status,
  notes: request.notes.map(({ author, text, atMs }) => ({ author, text, at: isoTime(atMs) })),
  decidedBy: request.decidedBy,
  decidedAt: request.decidedAtMs === null ? null : isoTime(request.decidedAtMs),
  createdAt: isoTime(request.createdAtMs),
})
