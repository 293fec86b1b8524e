import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { isoTime } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { reachesOut } from '../workspaces/rules.ts'
import { findUsable, newMessageId, type TeamDeps } from './core.ts'
import type { FinishedTask, TaskAssignment, Team, TeamMember, TeamMessage } from './ports.ts'
import { COORDINATOR, EVERYBODY, invalid, OWNER_AGENT, readAssignment, TASK_ASSIGNMENT } from './rules.ts'

export type MessageInput = Readonly<{
  name: string
  agent: string
  to: string
  content: string
  message_type?: string | undefined
}>
export type ReceiveInput = Readonly<{ name: string; agent: string; limit?: number | undefined }>

const RECEIVE_DEFAULT = 10
/** Rows that are read at once while an answer is assembled. */
const PAGE = 10

/**
 * Messages between members. A message leaves an inbox only in the transaction of the call that returns it, and none is
 * ever dropped: a full inbox refuses.
 */
export function createMailbox(deps: TeamDeps, wakeRunner: () => void) {
  const { store } = deps

  /** All recipients get it, or none. */
  async function message(call: Call, input: MessageInput) {
    const { message_type: type = 'text', content } = input
    requireSize(content)
    const assignment = type === TASK_ASSIGNMENT ? readAssignment(content) : undefined
    if (assignment !== undefined) requireMayRun(call)
    const team = await findUsable(deps, call, call.read, input.name)
    const members = await store.listMembers(call.read, team.tenant, team.name)
    const sender = agentOf(team, members, 'agent', input.agent)
    const recipients = recipientsOf(team, members, sender, input.to)
    const sent: TeamMessage = {
      seq: team.lastSeq + 1,
      id: newMessageId(deps),
      sender: input.agent,
      addressedTo: input.to,
      content,
      type,
      atMs: call.nowMs,
    }
    await store.saveTeam(call.write, team.tenant, { ...team, lastSeq: sent.seq })
    if (assignment === undefined) await deliver(call, team, recipients, sent)
    else await assign(call, team, members, recipients, { sent, assignment })
    call.record({
      kind: 'team_message_sent',
      body: {
        name: team.name,
        message_id: sent.id,
        from: input.agent,
        recipients,
        message_type: type,
        size_bytes: Buffer.byteLength(content),
        sha256: sha256Hex(content),
      },
    })
    return {
      action: 'message' as const,
      message_id: sent.id,
      status: 'delivered' as const,
      from: input.agent,
      to: input.to,
      recipients,
      message_type: type,
    }
  }

  async function deliver(call: Call, team: Team, recipients: readonly string[], sent: TeamMessage): Promise<void> {
    for (const recipient of recipients) {
      const waiting = await store.countMessages(call.read, team.tenant, team.name, recipient)
      if (waiting >= limits.teamInboxMax) throw inboxFull(recipient, `${waiting} messages wait for it`, waiting)
      await store.addMessage(call.write, team.tenant, { team: team.name, recipient }, sent)
    }
  }

  async function assign(
    call: Call,
    team: Team,
    members: readonly TeamMember[],
    recipients: readonly string[],
    { sent, assignment }: Readonly<{ sent: TeamMessage; assignment: TaskAssignment }>,
  ): Promise<void> {
    const counts = await store.taskCounts(call.read, team.tenant, team.name)
    for (const agent of recipients) {
      await requireWorkspace(call, team, members, agent)
      const { queued = 0, running = 0, done = 0 } = counts.get(agent) ?? {}
      const held = queued + running + done
      if (held >= limits.teamTasksMax) {
        throw inboxFull(agent, `${held} of its tasks are unfinished or have results that were not received`, held)
      }
      const key = { tenant: team.tenant, team: team.name, agent, messageId: sent.id }
      await store.addTask(call.write, key, { seq: sent.seq, assignment, atMs: sent.atMs })
    }
    wakeRunner()
  }

  async function requireWorkspace(call: Call, team: Team, members: readonly TeamMember[], agent: string) {
    const id = members.find(({ name }) => name === agent)?.workspaceId
    if (id == null) throw invalid('to', `'${agent}' has no workspace to run a task in; name a member`)
    const workspace = await deps.workspaceRows.findWorkspace(call.read, team.tenant, id)
    if (workspace?.owner === team.owner) return await call.enterWorkspace?.(id, reachesOut(workspace))
    throw new AppError('ERR_WORKSPACE_NOT_FOUND', `to: the workspace of '${agent}' no longer belongs to the team`, {
      field: 'to',
      workspace_id: id,
    })
  }

  async function receive(call: Call, input: ReceiveInput) {
    const team = await findUsable(deps, call, call.read, input.name)
    const { tenant, name } = team
    const members = await store.listMembers(call.read, tenant, name)
    const recipient = agentOf(team, members, 'agent', input.agent)
    const messages = await takeWithin<TeamMessage>(input.limit ?? RECEIVE_DEFAULT, messageView, (afterSeq, limit) =>
      store.listMessages(call.read, tenant, { team: name, recipient, afterSeq, limit }),
    )
    const results = await takeWithin<FinishedTask>(
      limits.teamTasksMax,
      ({ result }) => result,
      (afterSeq, limit) => store.listFinished(call.read, tenant, { team: name, agent: recipient, afterSeq, limit }),
    )
    const workspaceId = members.find((one) => one.name === recipient)?.workspaceId
    if (results.length > 0 && workspaceId != null) call.readsFrom?.(`workspace:${workspaceId}`)
    const untilSeq = messages.at(-1)?.seq
    if (untilSeq !== undefined) await store.deleteMessages(call.write, tenant, { team: name, recipient, untilSeq })
    for (const { messageId } of results) {
      await store.deleteTask(call.write, { tenant, team: name, agent: recipient, messageId })
    }
    const counts = (await store.taskCounts(call.read, tenant, name)).get(recipient)
    const pending = (counts?.queued ?? 0) + (counts?.running ?? 0)
    if (pending > 0) wakeRunner()
    if (messages.length + results.length > 0) {
      const ids = { message_ids: messages.map(({ id }) => id), task_message_ids: results.map((one) => one.messageId) }
      call.record({ kind: 'team_messages_received', body: { name, agent: input.agent, ...ids } })
    }
    return {
      action: 'receive' as const,
      agent: input.agent,
      messages: messages.map(messageView),
      count: messages.length,
      daemon_results: results.map(({ result }) => result),
      daemon_pending_tasks: pending,
      remaining_messages: await store.countMessages(call.read, tenant, name, recipient),
      remaining_results: counts?.done ?? 0,
    }
  }

  return { message, receive }
}

const messageView = ({ id, sender, addressedTo, content, type, atMs }: TeamMessage) => ({
  message_id: id,
  from: sender,
  to: addressedTo,
  content,
  message_type: type,
  timestamp: isoTime(atMs),
})

/** As many as requested and as fit into an answer, in order. */
async function takeWithin<T extends Readonly<{ seq: number }>>(
  countMax: number,
  view: (item: T) => unknown,
  read: (afterSeq: number, limit: number) => Promise<readonly T[]>,
): Promise<readonly T[]> {
  const taken: T[] = []
  let bytes = 0
  for (;;) {
    const page = await read(taken.at(-1)?.seq ?? 0, Math.min(PAGE, countMax - taken.length))
    for (const item of page) {
      bytes += Buffer.byteLength(JSON.stringify(view(item)))
      if (bytes > limits.teamReceiveBytesMax) return taken
      taken.push(item)
    }
    if (page.length < PAGE || taken.length >= countMax) return taken
  }
}

function requireSize(content: string): void {
  const size = Buffer.byteLength(content)
  if (size <= limits.teamMessageBytesMax) return
  const rule = `at most ${limits.teamMessageBytesMax} bytes`
  throw new AppError('ERR_TOO_LARGE', `content: has ${size} bytes; ${rule}. Put more into a file or a note.`, {
    field: 'content',
    size,
    rule,
  })
}

/** A task is a command like any other: a caller that may not run commands may not assign them. */
function requireMayRun({ principal }: Call): void {
  if (isPermitted(principal, 'workspace:exec')) return
  throw new AppError(
    'ERR_PERMISSION_DENIED',
    `message_type: a ${TASK_ASSIGNMENT} runs a command, which needs the permission 'workspace:exec'.`,
    { permission: 'workspace:exec' },
  )
}

/** The inbox of a name: a member's, or that of the team's owner, for whom the caller acts. */
function agentOf(team: Team, members: readonly TeamMember[], field: string, name: string): string {
  if (members.some((member) => member.name === name)) return name
  if (name === OWNER_AGENT || name === COORDINATOR) return OWNER_AGENT
  const names = [...members.map((member) => member.name), OWNER_AGENT]
  throw new AppError(
    'ERR_AGENT_NOT_FOUND',
    `${field}: the team '${team.name}' has ${names.join(', ')}; use one of them`,
    {
      field,
      name: name.slice(0, 128).toWellFormed(),
      members: names,
    },
  )
}

function recipientsOf(team: Team, members: readonly TeamMember[], sender: string, to: string): readonly string[] {
  if (to !== EVERYBODY) return [agentOf(team, members, 'to', to)]
  const others = members.map(({ name }) => name).filter((name) => name !== sender)
  if (others.length === 0)
    throw invalid('to', `the team has no member but '${sender}'; name '${OWNER_AGENT}' or a member`)
  return others
}

const inboxFull = (agent: string, why: string, waiting: number): AppError =>
  new AppError('ERR_INBOX_FULL', `to: the inbox of '${agent}' is full: ${why}; let it receive them first`, {
    field: 'to',
    agent,
    waiting,
  })
