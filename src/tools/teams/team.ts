import { defineTool } from '../runtime/define-tool.ts'
import { teamInput } from './team-input.ts'
import { teamOutput } from './team-output.ts'

export default defineTool({
  name: 'team',
  toolset: 'teams',
  trust: { reads: 'team', sends: 'open-network', carries: { as: 'team', fields: ['name'] } },
  title: 'Manage a team of agents',
  description:
    'Several agents, each in a workspace of its own: create and destroy teams and sub-teams, adopt one whose owner was revoked, see their status, list them, pass messages between members, receive an inbox. A message of the type task_assignment runs a command in the workspace of a member; its result comes with receive. For commands that you wait for use exec.',
  permission: 'team:update',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  actions: {
    create: { permission: 'team:create', alsoNeeds: ['workspace:create'], rate: 'create' },
    destroy: { permission: 'team:delete', alsoNeeds: ['workspace:delete'], whenDiskFull: true },
    status: { permission: 'team:read', effect: 'read' },
    list: { permission: 'team:read', effect: 'read' },
    message: { effect: 'update', rate: 'message' },
    receive: { effect: 'update' },
    adopt: { alsoNeeds: ['workspace:update'], effect: 'update' },
  },
  skipJudge: false,
  governed: { opaque: 'commands' },
  input: teamInput,
  output: teamOutput,
  run: (input, { teams, call }) => teams.act(call, input),
})
