import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { type Answer, openTestApp, type TestApp } from './app.ts'
import { agentYaml } from './executions.ts'
import { governanceWords, plantGovernance } from './governance-canaries.ts'
import { ended, start, workflowYaml } from './workflows.ts'

/** What tenant A has planted, and how tenant B would fill in a parameter with what is its own. */
export type Canaries = Readonly<{
  tenant: string
  /** Texts that only A may ever see. None of them is ever sent by B. */
  secrets: readonly string[]
  /** Ids, names and other things of A's that B may come to know, and then send. */
  probes: readonly string[]
  /** A position in A's log that is beyond B's. */
  position: number
  ownValueOf(parameter: string): unknown
}>

const ownValues: Readonly<Record<string, unknown>> = {
  task_id: 'T-0001',
  parent_id: 'T-0001',
  session_id: 'A-0001',
  project: 'b-project',
  key: 'b-spare',
  tool_name: 'task_list',
  title: 'a task of b',
  name: 'b-new',
  content: 'a thought of b',
  auditor_id: 'bob',
  query: 'task',
  seq: 0,
}

const A = 'tenant-of-a'
const B = 'tenant-of-b'
const TASKS = 30
const WORKSPACE = '7caed28e-8821-4997-8d84-2ae424d3aabe'
/** As many as make the store enter everything so far into its indexes. */
const OTHER_TASKS = 256

/** A tenant with something in every field that there is, with ids and positions beyond any that B will ever have. */
async function plant(app: TestApp, a: ToolCaller): Promise<Answer> {
  const ask = (name: string, args: object) => app.ask<Answer>(name, args, a)
  await ask('server_ping', {})
  await (await app.app.ready).database!.flush()
  app.behindItsBack((db) =>
    db.exec(`UPDATE log_heads SET task_count = 4000, thought_count = 4000, session_count = 4000 WHERE tenant = '${A}'`),
  )
  const createTask = (number: number) =>
    ask('task_create', {
      title: `secret-title-${number}`,
      description: `secret-description-${number}`,
      project: number % 2 ? 'canary-project' : 'secret-project',
      labels: ['secret-label', 'canary-label'],
      assignee: 'secret-assignee',
      estimate_hours: 777,
      ...(number > 1 ? { parent_id: 'T-4001', depends_on: ['T-4001'] } : {}),
    })
  for (let number = 1; number < TASKS; number++) await createTask(number)
  const other = { title: 'of the owner', project: 'of-the-owner' }
  await Promise.all(Array.from({ length: OTHER_TASKS }, () => app.ask('task_create', other)))
  await createTask(TASKS)
  // The same for the index of the log.
  await Promise.all(Array.from({ length: OTHER_TASKS }, () => app.call('task_get', { task_id: 'T-9999' }, a)))
  await ask('task_update', { task_id: 'T-4030', status: 'todo' })
  await ask('task_update', { task_id: 'T-4030', status: 'blocked', blocked_reason: 'secret-reason' })
  for (const task_id of ['T-4030', 'T-4029', 'T-4030']) {
    await ask('audit_session_start', {
      task_id,
      auditor_id: 'secret-auditor',
      reason: 'secret-audit-reason',
      scope: 'deep',
    })
    await ask('thought_record', {
      task_id,
      type: 'risk',
      content: 'secret-content',
      branch: 'secret-branch',
      commit_sha: 'secret-commit',
      tests_run: ['secret-test'],
      blockers: ['secret-blocker'],
      metadata: { 'secret-key': 'secret-value' },
    })
  }
  await ask('merkle_finalize', { session_id: 'A-4002' })
  await Promise.all(Array.from({ length: 500 }, () => app.call('server_ping', {}, a)))
  return await ask('thought_record', { task_id: 'T-4030', type: 'risk', content: 'secret-content' })
}

const secrets = [
  ...['title', 'description', 'project', 'label', 'assignee', 'reason', 'auditor', 'audit-reason', 'content'],
  ...['branch', 'commit', 'test', 'blocker', 'key', 'value', 'agent'],
  ...['domain', 'source', 'origin', 'variable', 'layer', 'team', 'snapshot-id'],
  ...['role', 'skill', 'message', 'result'],
  ...['workflow', 'state', 'input', 'instruction', 'summary'],
  ...['purpose', 'person', 'invited', 'address'],
  ...governanceWords,
  ...['profile', 'prompt', 'summary-title', 'suggestion', 'duty', 'user-team'],
].map((word) => `secret-${word}`)

/** Only the records: what they name on the disk is for the back end to keep apart. */
function plantWorkspace(app: TestApp, owner: string): void {
  const network = {
    allowInternet: true,
    allowInterVm: true,
    allowedPorts: [80],
    allowedDomains: ['secret-domain.example'],
  }
  const forwards = [{ hostPort: 23_456, guestPort: 80 }]
  const lineage = { workspaceId: 'w', workspaceName: 'secret-source', snapshotName: 'secret-origin' }
  app.behindItsBack((db) => {
    db.prepare(
      `INSERT INTO workspaces (tenant, id, name, owner, state, wanted, image, vcpus, memory_mb, disk_gb, ip, network, forwards,
        env, layers, forked_from, current_snapshot_id, node, operation, team, created_at, created_by) VALUES ('${A}', '${WORKSPACE}', 'canary-space', ?, 'stopped', 'stopped', 'host', 2, 512, 10,
        '10.99.7.7', ?, ?, '{"SECRET":"secret-variable"}', '["secret-layer"]', ?, 'secret-snapshot-id', 'local', NULL,
        'secret-team', 1, 'secret-agent')`,
    ).run(owner, JSON.stringify(network), JSON.stringify(forwards), JSON.stringify(lineage))
    db.exec(`INSERT INTO workspace_snapshots VALUES ('${A}', 'secret-snapshot-id', '${WORKSPACE}', 1, 'canary-snapshot',
      'secret-layer', '["secret-layer"]', NULL, 7777, 0, 'ready', 1, 'secret-agent')`)
  })
}

function plantTeam(app: TestApp, owner: string): void {
  const result = { task_id: 'secret-result', success: true, exit_code: 0, stdout: '', stderr: '', elapsed_secs: 0 }
  app.behindItsBack((db) => {
    db.prepare(
      `INSERT INTO teams (tenant, name, owner, state, max_vms, parent, depth, node, operation, last_seq, created_at,
        created_by) VALUES ('${A}', 'canary-team', ?, 'ready', 9, NULL, 0, 'local', NULL, 2, 1, 'secret-agent')`,
    ).run(owner)
    db.exec(`INSERT INTO team_members (tenant, team, name, position, role, skills, description, workspace_id) VALUES
      ('${A}', 'canary-team', 'canary-member', 0, 'secret-role', '["secret-skill"]', '', '${WORKSPACE}')`)
    db.exec(`INSERT INTO team_messages (tenant, team, recipient, seq, id, sender, addressed_to, content, type, at) VALUES
      ('${A}', 'canary-team', 'canary-member', 1, 'msg', 'owner', 'canary-member', 'secret-message', 'text', 1)`)
    db.prepare(
      `INSERT INTO team_tasks (tenant, team, agent, message_id, seq, assignment, state, job_id, result, at) VALUES
        ('${A}', 'canary-team', 'canary-member', 'msg-2', 2, '{}', 'done', 1, ?, 1)`,
    ).run(JSON.stringify({ ...result, source_message_id: 'msg-2' }))
  })
}

/** A workflow of A's with a run that has ended. Answers the ids of both. */
async function plantWorkflow(app: TestApp, a: ToolCaller): Promise<readonly string[]> {
  const states = 'A: { kind: System, command: update_blackboard, env: { kept: secret-state }, transitions: [] }'
  const manifest_yaml = workflowYaml('canary-workflow', states, { metadata: 'description: secret-workflow' })
  const { workflow_id } = await app.ask('aegis.workflow.create', { manifest_yaml }, a)
  const id = await start(app, 'canary-workflow', { input: { retained: 'secret-input' } }, a)
  await ended(app, id, a)
  return [String(workflow_id), id]
}

/** An agent of A's that is to be executed on a day far away, and a session of signed calls. Answers the ids of both. */
async function plantAgent(app: TestApp, a: ToolCaller): Promise<readonly string[]> {
  const schedule = '  schedule: { type: cron, cron: "0 0 29 2 *", timezone: UTC }\n'
  const manifest_yaml = agentYaml('canary-coder', `  task: { instruction: secret-instruction }\n${schedule}`)
  const { agent_id } = await app.ask('aegis.agent.create', { manifest_yaml }, a)
  const public_key = '6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw='
  const { session_id } = await app.ask('seal_session_create', { public_key, task_summary: 'secret-summary' }, a)
  app.behindItsBack((db) => db.exec(`INSERT INTO seal_messages VALUES ('${A}', 'secret-summary', 4102444800000)`))
  return [String(agent_id), String(session_id)]
}

/** A user of A's in a team of people, a person who is invited, and an attempt to sign in. Answers the ids of all. */
async function plantPeople(app: TestApp, a: ToolCaller): Promise<readonly string[]> {
  const ask = (name: string, args: object) => app.ask<Answer>(name, args, a)
  const team = await ask('user_team_create', { name: 'canary-people', description: 'secret-purpose' })
  const user = await ask('user_create', {
    email: 'canary-user@example.com',
    name: 'secret-person',
    teams: ['canary-people'],
  })
  const invitation = await ask('invitation_create', { email: 'secret-invited@example.com' })
  app.behindItsBack((db) =>
    db.exec(`INSERT INTO sign_in_attempts (at, email, address, outcome, tenant, user_id)
      VALUES (1, 'secret-invited@example.com', 'secret-address', 'refused', '${A}', NULL)`),
  )
  return [team, user, invitation].map(({ id }) => String(id))
}

/** Agents of people, one of which hands tasks on to the other, and a role. Answers the ids of the agents. */
async function plantProfiles(app: TestApp, a: ToolCaller): Promise<readonly string[]> {
  const helper = await app.ask<{ id: string }>('create_agent', { name: 'canary-helper' }, a)
  const lead = await app.ask<{ id: string }>(
    'create_agent',
    {
      name: 'Canary Lead',
      scope: 'org',
      description: 'secret-profile',
      systemPrompt: 'secret-prompt',
      labels: [{ key: 'secret-key', value: 'secret-value' }],
      suggestedPrompts: [{ summaryTitle: 'secret-summary-title', prompt: 'secret-suggestion' }],
      subAgentIds: [helper.id],
    },
    a,
  )
  await app.ask('role_create', { name: 'canary-role', description: 'secret-duty', permissions: ['task:read'] }, a)
  app.behindItsBack((db) =>
    db.exec(`INSERT INTO shared_with_teams VALUES ('${A}', 'profile', '${helper.id}', 'secret-user-team')`),
  )
  return [helper.id, lead.id]
}

/** Makes the installation and closes it: its directory is the template for copies. */
export async function plantCanaries(): Promise<{
  app: TestApp
  canaries: Canaries
  principals: Readonly<Record<'admin' | 'member', ToolCaller['principal']>>
}> {
  const app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  const a = await app.keyCaller({ name: 'canary-agent', tenant: A, role: 'admin', tier: 'operator' })
  await app.keyCaller({ name: 'secret-agent', tenant: A })
  const admin = await app.keyCaller({ name: 'b-admin', tenant: B, role: 'admin', tier: 'operator' })
  const member = await app.keyCaller({ name: 'b-member', tenant: B })
  await app.keyCaller({ name: 'b-spare', tenant: B })
  const thought = await plant(app, a)
  await app.ask('task_create', { title: 'one', project: 'b-project' }, admin)
  await app.ask('task_create', { title: 'two', project: 'b-project' }, admin)
  await app.ask('audit_session_start', { task_id: 'T-0001', auditor_id: 'bob' }, admin)
  const checkpoint = await app.ask<{ checkpoint: string }>('log_checkpoint', {}, a)
  const { keys } = await app.ask<{ keys: Answer[] }>('api_key_list', {}, a)
  const key = keys.find(({ name }) => name === 'canary-agent')!
  plantWorkspace(app, `key:${String(key['id'])}`)
  plantTeam(app, `key:${String(key['id'])}`)
  const workflow = await plantWorkflow(app, a)
  const agent = await plantAgent(app, a)
  const people = await plantPeople(app, a)
  const profiles = await plantProfiles(app, a)
  const governance = await plantGovernance(app, a, A)
  await app.stop()
  const probes = [
    ...['T-4030', 'T-4001', 'Θ-4004', 'A-4003', 'A-4002', 'canary-agent', 'canary-project', 'canary-label', A],
    ...[WORKSPACE, 'canary-space', 'canary-snapshot', 'canary-team', 'canary-member', 'canary-workflow', ...workflow],
    ...['canary-coder', ...agent, ...people, 'canary-helper', 'Canary Lead', 'canary-lead', 'canary-role', ...profiles],
    ...governance,
    ...[key['id'], key['prefix'], thought['hash'], checkpoint.checkpoint].map(String),
  ]
  return {
    app,
    canaries: {
      tenant: A,
      secrets,
      probes,
      position: 480,
      ownValueOf: (parameter) => ownValues[parameter],
    },
    principals: { admin: admin.principal, member: member.principal },
  }
}
