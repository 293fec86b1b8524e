import type { Call } from '../../contract/call.ts'
import { createAdopt } from './adopt.ts'
import type { TeamDeps } from './core.ts'
import { type CreateInput, createLifecycle } from './lifecycle.ts'
import { createMailbox, type MessageInput, type ReceiveInput } from './mailbox.ts'
import { invalid } from './rules.ts'
import { createTaskRunner } from './task-runner.ts'
import { createViews } from './views.ts'

/** Every parameter of every action, as the tool takes them. */
type Parameters = CreateInput & MessageInput & ReceiveInput
type Name = keyof Parameters
type TeamInput = Readonly<{ action: TeamAction }> & { readonly [N in Name]?: Parameters[N] | undefined }

/** The required and optional parameters of each action. */
const parameters = {
  create: { required: ['name', 'roles'], optional: ['max_vms', 'base_snapshot', 'golden_workspace', 'parent_team'] },
  destroy: { required: ['name'], optional: [] },
  status: { required: ['name'], optional: [] },
  adopt: { required: ['name'], optional: [] },
  list: { required: [], optional: [] },
  message: { required: ['name', 'agent', 'to', 'content'], optional: ['message_type'] },
  receive: { required: ['name', 'agent'], optional: ['limit'] },
} as const satisfies Record<string, Readonly<{ required: readonly Name[]; optional: readonly Name[] }>>
type TeamAction = keyof typeof parameters

export type TeamService = ReturnType<typeof createTeamService>

/**
 * Agents that work together, each in its own workspace: members, messages and tasks. `message`, `receive` and `adopt` write
 * through the call's own transaction, `create` and `destroy` through separate ones.
 */
export function createTeamService(deps: TeamDeps) {
  const runner = createTaskRunner(deps)
  const lifecycle = createLifecycle(deps)
  const mailbox = createMailbox(deps, runner.wake)
  const views = createViews(deps)
  const actions: Readonly<Record<TeamAction, (call: Call, input: never) => Promise<TeamAnswer>>> = {
    create: lifecycle.create,
    destroy: lifecycle.destroy,
    adopt: createAdopt(deps),
    status: views.status,
    list: views.list,
    message: mailbox.message,
    receive: mailbox.receive,
  }
  return {
    async act(call: Call, input: TeamInput): Promise<TeamAnswer> {
      requireParameters(input)
      return await actions[input.action](call, input as never)
    },
    /** At the start of the server, in the background: cleans up after a crash, and resumes the tasks. */
    async begin(): Promise<void> {
      await lifecycle.recover()
      runner.wake()
    },
    close: () => runner.close(),
  }
}

type Views = ReturnType<typeof createViews>
type Mailbox = ReturnType<typeof createMailbox>
type Lifecycle = ReturnType<typeof createLifecycle>
type TeamAnswer = Awaited<
  ReturnType<
    | Views['status']
    | Views['list']
    | Mailbox['message']
    | Mailbox['receive']
    | Lifecycle['create']
    | Lifecycle['destroy']
    | ReturnType<typeof createAdopt>
  >
>

/** Refuses missing parameters, and those of another action, which would be ignored. */
function requireParameters(input: TeamInput): void {
  const { required, optional } = parameters[input.action]
  const accepted: readonly string[] = [...required, ...optional]
  for (const name of required as readonly Name[]) {
    if (input[name] === undefined) throw invalid(name, `the action ${input.action} needs it`, { accepted })
  }
  for (const [name, value] of Object.entries(input)) {
    if (name === 'action' || value === undefined || accepted.includes(name)) continue
    const acceptedText = accepted.length === 0 ? 'takes nothing else' : `takes ${accepted.join(', ')}`
    throw invalid(name, `does not belong to the action ${input.action}, which ${acceptedText}`, { accepted })
  }
}
