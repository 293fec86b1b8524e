import { describe, expect, test } from 'vitest'
import type { CastellanClient } from '../support/castellan-client.ts'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import type { Line } from '../support/scripted-model.ts'
import { type Ended, type LoggedEvent, workflowYaml } from '../support/workflows.ts'

/** Workflows in the whole program, with a scripted model over HTTP where one is needed. */
const deploy = (client: CastellanClient, name: string, spec: string) =>
  ask(client, 'aegis.agent.create', { manifest_yaml: agentYaml(name, spec) })
async function start(client: CastellanClient, yaml: string, more: object = {}): Promise<string> {
  const { name } = await ask<{ name: string }>(client, 'aegis.workflow.create', { manifest_yaml: yaml })
  return (await ask<{ execution_id: string }>(client, 'aegis.workflow.run', { name, ...more })).execution_id
}
const ended = async (client: CastellanClient, execution_id: string): Promise<Ended> => {
  for (;;) {
    const answer = await ask<Ended>(client, 'aegis.workflow.wait', { execution_id })
    if (answer.timed_out !== true) return answer
  }
}
const eventsOf = async (client: CastellanClient, execution_id: string) =>
  (await ask<{ events: LoggedEvent[] }>(client, 'aegis.workflow.logs', { execution_id, limit: 200 })).events
const until = async (client: CastellanClient, id: string, type: string, count = 1): Promise<void> => {
  for (;;) {
    if ((await eventsOf(client, id)).filter(({ event_type }) => event_type === type).length >= count) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
const task = (text: string, more = '') => `  task: { instruction: "${text}" }\n${more}`
const verdict = (score: number, reasoning = 'because') => JSON.stringify({ score, confidence: 0.9, reasoning })

describe('agents in workflows', () => {
  test('work in the workspace of the run, and are tried again with the reasons of their judges', async () => {
    const stage = await setModelStage(({ text, messages }) => {
      if (text.includes('Judge.')) return { text: text.includes('better') ? verdict(0.9) : verdict(0.4, 'too short') }
      const isDone = messages.some(({ role }) => role === 'tool')
      if (!isDone)
        return { toolCalls: [{ name: 'fs_write', arguments: { path: '/workspace/notes', content: 'from the agent' } }] }
      return { text: text.includes('too short') ? 'better' : 'first' }
    })
    const client = await stage.start()
    await deploy(client, 'worker', task('Work.', '  tools: [fs.write]\n'))
    await deploy(client, 'judge', task('Judge.'))
    const id = await start(
      client,
      workflowYaml(
        'refined',
        `A: { kind: Agent, agent: worker, input: "Write {{input.what}}", judges: [{ agent_id: judge }], transitions: [{ condition: score_above, threshold: 0.8, target: B }, { condition: score_below, threshold: 0.8, target: C }] }
B: { kind: System, command: "cat notes", transitions: [] }
C: { kind: System, command: "exit 1", transitions: [] }`,
      ),
      { input: { what: 'notes' } },
    )
    const run = await ended(client, id)
    expect(run).toMatchObject({
      status: 'completed',
      current_state: 'B',
      blackboard: { B: { stdout: 'from the agent' } },
    })
    expect(run.blackboard['A']).toMatchObject({ status: 'completed', output: 'better', score: 0.9 })
    expect((await eventsOf(client, id)).map(({ event_type }) => event_type)).toContain('refinement_applied')
    expect((await ask<{ workspaces: unknown[] }>(client, 'workspace_list')).workspaces).toEqual([])
  })

  test('have each tool call judged before it is made by whom the state names', async () => {
    const write = (path: string): Line => ({ toolCalls: [{ name: 'fs_write', arguments: { path, content: 'x' } }] })
    const stage = await setModelStage(({ text, messages }) => {
      if (text.includes('Guard.'))
        return { text: verdict(/proposed_tool_call[^}]*bad/.test(text) ? 0.1 : 1, 'not that one') }
      const answers = messages.filter(({ role }) => role === 'tool')
      return [write('bad'), write('good')][answers.length] ?? { text: JSON.stringify(answers[0]) }
    })
    const client = await stage.start()
    await deploy(client, 'worker', task('Work.', '  tools: [fs.write]\n'))
    await deploy(client, 'guard', task('Guard.'))
    const id = await start(
      client,
      workflowYaml(
        'guarded',
        `A: { kind: Agent, agent: worker, input: x, pre_execution_validator: guard, transitions: [{ condition: on_success, target: B }] }
B: { kind: System, command: ls, transitions: [] }`,
      ),
    )
    const run = await ended(client, id)
    expect(run).toMatchObject({ status: 'completed', blackboard: { B: { stdout: 'good\n' } } })
    expect(JSON.stringify(run.blackboard['A'])).toContain('not that one')
    const { agent_id } = await deploy(client, 'leaving', task('Guard.'))
    const state = 'A: { kind: Agent, agent: worker, input: x, pre_execution_validator: leaving, transitions: [] }'
    await ask(client, 'aegis.workflow.create', { manifest_yaml: workflowYaml('unguarded', state) })
    await ask(client, 'aegis.agent.delete', { agent_id })
    const asked = stage.requests.length
    const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.workflow.run', { name: 'unguarded' })
    expect((await ended(client, execution_id)).blackboard['A']?.['error']).toContain("no agent 'leaving' to judge")
    expect(stage.requests).toHaveLength(asked)
  })

  test('have one time for all attempts and their judges', async () => {
    const stage = await setModelStage(async ({ text }) => {
      if (text.includes('Judge.')) return { text: verdict(0.1, 'again') }
      await new Promise((resolve) => setTimeout(resolve, 1_200))
      return { text: 'slowly' }
    })
    const client = await stage.start()
    await deploy(client, 'worker', task('Work.'))
    await deploy(client, 'judge', task('Judge.'))
    const id = await start(
      client,
      workflowYaml(
        'slow',
        `A: { kind: Agent, agent: worker, input: x, judges: [judge], max_iterations: 4, timeout: 3s, transitions: [{ condition: timeout, target: B }, { condition: always, target: C }] }
B: { kind: System, command: update_blackboard, transitions: [] }
C: { kind: System, command: update_blackboard, transitions: [] }`,
      ),
    )
    const end = await ended(client, id)
    expect(end).toMatchObject({ current_state: 'B', blackboard: { A: { timeout: true } } })
    // The limit that ended it is not one of the agent's manifest.
    expect(end.blackboard['A']?.['error']).toContain('Raise the timeout of the state')
  })

  test('agree by weight, and one that fails goes to on_failure', async () => {
    const stage = await setModelStage(({ text }) => ({ text: text.includes('one') ? verdict(0.9) : verdict(0.6) }))
    const client = await stage.start()
    await deploy(client, 'voice', task('Say.'))
    const id = await start(
      client,
      workflowYaml(
        'voices',
        `A: { kind: ParallelAgents, agents: [{ agent: voice, input: one }, { agent: voice, input: two, weight: 2 }], consensus: { strategy: weighted_average, min_judges_required: 2 }, transitions: [{ condition: score_above, threshold: 0.8, target: C }, { condition: score_above, threshold: 0.65, target: B }] }
B: { kind: Agent, agent: nobody, input: x, transitions: [{ condition: on_success, target: A }, { condition: on_failure, target: C }] }
C: { kind: System, command: update_blackboard, transitions: [] }`,
      ),
    )
    const run = await ended(client, id)
    expect(run).toMatchObject({ status: 'completed', current_state: 'C' })
    expect(run.blackboard['A']).toMatchObject({
      status: 'completed',
      consensus: { score: expect.closeTo(0.7, 5), strategy: 'weighted_average' },
      individual_scores: [0.9, 0.6],
    })
    expect(run.blackboard['B']).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('ERR_AGENT_NOT_FOUND'),
    })
  })

  test('that are too few for a consensus have no score, whatever one of them answered', async () => {
    const stage = await setModelStage(({ text }) => ({ text: text.includes('one') ? verdict(0.9) : 'no verdict' }))
    const client = await stage.start()
    await deploy(client, 'voice', task('Say.'))
    const id = await start(
      client,
      workflowYaml(
        'too-few',
        `A: { kind: ParallelAgents, agents: [{ agent: voice, input: one }, { agent: voice, input: two }], consensus: { strategy: weighted_average, min_judges_required: 2 }, transitions: [{ condition: score_above, threshold: 0.7, target: B }, { condition: score_below, threshold: 0.7, target: B }, { condition: on_failure, target: C }] }
B: { kind: System, command: update_blackboard, transitions: [] }
C: { kind: System, command: update_blackboard, transitions: [] }`,
      ),
    )
    const run = await ended(client, id)
    expect(run).toMatchObject({ current_state: 'C', blackboard: { A: { status: 'failed', individual_scores: [0.9] } } })
  })

  test('work side by side in copies of the workspace, of which nothing is lost', async () => {
    const stage = await setModelStage(({ text, messages }) => {
      if (messages.some(({ role }) => role === 'tool')) return { text: verdict(0.9) }
      const who = text.includes('one') ? 'one' : 'two'
      const write = (path: string) => ({ name: 'fs_write', arguments: { path, content: who } })
      return { toolCalls: [write(`${who}.txt`), ...(text.includes('same') ? [write('both.txt')] : [])] }
    })
    const client = await stage.start()
    await deploy(client, 'writer', task('Write.', '  tools: [fs.write]\n'))
    // A policy judges the commands of manifests and models, and not the scripts with which the server copies files.
    const conditions = [{ key: 'command', operator: 'contains', value: 'tar ' }]
    await ask(client, 'create_tool_invocation_policy', { toolId: 'exec', action: 'block_always', conditions })
    const agents = (what: string) =>
      `{ kind: ParallelAgents, agents: [{ agent: writer, input: one ${what} }, { agent: writer, input: two ${what} }], consensus: { strategy: weighted_average, min_judges_required: 1 }, transitions: [{ condition: always, target: B }] }
B: { kind: System, command: "find . -name '*.txt' | sort | xargs tail -n +1", transitions: [] }`
    const apart = await ended(client, await start(client, workflowYaml('apart', `A: ${agents('apart')}`)))
    expect(apart.blackboard['A']).toMatchObject({ individual_scores: [0.9, 0.9] })
    expect(apart.blackboard['B']).toMatchObject({ stdout: '==> ./one.txt <==\none\n==> ./two.txt <==\ntwo' })
    const same = await ended(client, await start(client, workflowYaml('same', `A: ${agents('same')}`)))
    const { agents: ends } = same.blackboard['A'] as unknown as { agents: { status: string; error?: string }[] }
    expect(ends.map(({ status }) => status)).toEqual(['completed', 'failed'])
    expect(ends[1]!.error).toContain('wrote the same files')
    const { stdout } = same.blackboard['B'] as { stdout: string }
    expect(stdout).toContain('==> ./both.txt <==\none\n')
    expect(stdout).toMatch(/==> \.\/\.unmerged-writer-[0-9a-f]+\/both\.txt <==\ntwo\n/)
    const { workspaces } = await ask<{ workspaces: unknown[] }>(client, 'workspace_list')
    expect(workspaces).toEqual([])
  })

  test('judge a workflow before it is registered when that is asked for, and no verdict is a refusal', async () => {
    const stage = await setModelStage(({ text }) => ({
      text: text.includes('good-one') ? verdict(0.95) : verdict(0.3, 'unsafe'),
    }))
    const client = await stage.start()
    await deploy(client, 'judge', task('Judge.'))
    const states = 'A: { kind: System, command: update_blackboard, transitions: [] }'
    const create = (name: string, judge_agents: string[]) =>
      client.call('aegis.workflow.create', { manifest_yaml: workflowYaml(name, states), judge_agents })
    expect(await create('good-one', ['judge'])).toMatchObject({ kind: 'done', answer: { deployed: true } })
    expect(await create('bad-one', ['judge'])).toMatchObject({ kind: 'failed', code: 'ERR_WORKFLOW_REJECTED' })
    expect(await create('good-one-2', ['nobody'])).toMatchObject({ kind: 'failed', code: 'ERR_WORKFLOW_REJECTED' })
    const { workflows } = await ask<{ workflows: { name: string }[] }>(client, 'aegis.workflow.list')
    expect(workflows.map(({ name }) => name)).toEqual(['good-one'])
  })
})

describe('a server that is killed', () => {
  test('goes on with each run from its last recorded point, and does nothing twice that is recorded', async () => {
    const stage = await setModelStage(undefined)
    let client = await stage.startProcess()
    const id = await start(
      client,
      workflowYaml(
        'survivor',
        `A: { kind: System, command: "echo a >> log", transitions: [{ condition: on_success, target: B }] }
B: { kind: System, command: "test -e go || { echo b >> log; sleep 600; }; echo b >> log", transitions: [{ condition: on_success, target: ASK }] }
ASK: { kind: Human, prompt: "{{B.exit_code}}?", transitions: [{ condition: always, target: END }] }
END: { kind: System, command: "cat log", transitions: [] }`,
      ),
    )
    await until(client, id, 'state_exited')
    await until(client, id, 'step_began', 3)
    const { workspaces } = await ask<{ workspaces: { workspace_id: string }[] }>(client, 'workspace_list')
    await ask(client, 'exec', {
      workspace_id: workspaces[0]!.workspace_id,
      command: 'until grep -q b /workspace/log; do sleep 0.01; done; touch /workspace/go',
    })
    client.kill('SIGKILL')
    await client.ended
    client = await stage.startProcess()
    await until(client, id, 'wait_began')
    client.kill('SIGKILL')
    await client.ended
    client = await stage.start()
    await ask(client, 'aegis.workflow.signal', { execution_id: id, response: 'go on' })
    const run = await ended(client, id)
    expect(run).toMatchObject({ status: 'completed', current_state: 'END' })
    // The second command was under way when the server died: it is done again, and the journal says so.
    expect(run.blackboard['END']?.['stdout']).toBe('a\nb\nb\n')
    const events = await eventsOf(client, id)
    expect(events.filter(({ event_type }) => event_type === 'step_repeated')).toHaveLength(1)
    expect(events.filter(({ event_type }) => event_type === 'state_entered')).toHaveLength(4)
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1))
    expect((await ask<{ workspaces: unknown[] }>(client, 'workspace_list')).workspaces).toEqual([])
  })
})

describe('the setting workflows.judge_agents', () => {
  test('has every workflow judged, so that without a model none is registered', async () => {
    const stage = await setModelStage(undefined, { workflows: { judge_agents: ['output-judge'] } })
    const client = await stage.start()
    const states = 'A: { kind: System, command: update_blackboard, transitions: [] }'
    expect(await client.call('aegis.workflow.create', { manifest_yaml: workflowYaml('w', states) })).toMatchObject({
      kind: 'failed',
      code: 'ERR_WORKFLOW_REJECTED',
    })
  })
})

describe('a step with a network of its own, in a workspace that others use', () => {
  const states = `A: { kind: ContainerRun, name: a, image: host, network_mode: bridge, command: [sh, -c, "test -e again && exit; touch again; sleep 600"], workdir: /workspace, transitions: [{ condition: always, target: B }] }
B: { kind: Human, prompt: q, transitions: [] }`
  const yaml = (name: string) => workflowYaml(name, states, { spec: 'storage: { workspace: { volume_id: app } }' })
  const isOnline = async (client: CastellanClient) =>
    (await ask<{ network: { allow_internet: boolean } }>(client, 'workspace_info', { workspace_id: 'app' })).network
      .allow_internet

  test('leaves the network as it was, also when it is cancelled, and when the server dies', async () => {
    const stage = await setModelStage(undefined)
    const client = await stage.startProcess()
    await ask(client, 'workspace_create', { name: 'app', allow_internet: false })
    const id = await start(client, yaml('stopped'))
    await expect.poll(() => isOnline(client)).toBe(true)
    await ask(client, 'aegis.workflow.cancel', { execution_id: id })
    expect(await ended(client, id)).toMatchObject({ status: 'cancelled' })
    expect(await isOnline(client)).toBe(false)
    const started = await ask(client, 'exec', { workspace_id: 'app', command: 'rm -f again' })
    expect(started).toMatchObject({ exit_code: 0 })
    const second = await start(client, yaml('killed'))
    const look = { workspace_id: 'app', command: 'ls' }
    await expect.poll(async () => (await ask(client, 'exec', look))['stdout']).toContain('again')
    expect(await isOnline(client)).toBe(true)
    client.kill('SIGKILL')
    await client.ended
    const next = await stage.start()
    await until(next, second, 'human_input_requested')
    expect(await isOnline(next)).toBe(false)
  })
})

describe('values in commands', () => {
  const hostile = `x'; touch /workspace/owned; echo "$(touch /workspace/owned)" #`

  test('stay one word with {{shell}} or through env, and are warned of otherwise', async () => {
    const client = await (await setModelStage(undefined)).start()
    const yaml = workflowYaml(
      'words',
      `A: { kind: System, command: 'printf %s {{shell input.name}}; printf %s "$NAME"; ls -A /workspace', env: { NAME: "{{input.name}}" }, transitions: [] }`,
    )
    const created = await client.call('aegis.workflow.create', { manifest_yaml: yaml })
    expect(created).toMatchObject({ kind: 'done', warnings: [expect.stringContaining('No judge')] })
    const run = await ask<{ execution_id: string }>(client, 'aegis.workflow.run', {
      name: 'words',
      input: { name: hostile },
    })
    const end = await ended(client, run.execution_id)
    expect(end.blackboard['A']).toMatchObject({ exit_code: 0, stdout: `${hostile}${hostile}` })

    const raw = workflowYaml('raw', 'A: { kind: System, command: "echo {{input.name}}", transitions: [] }')
    const warning = expect.stringMatching(/^spec\.states\.A\.command: .*\{\{shell input\.name\}\}/)
    const checked = await client.call('aegis.workflow.validate', { manifest_yaml: raw })
    expect(checked).toMatchObject({ kind: 'done', warnings: expect.arrayContaining([warning]) })
    const outcome = await client.call('aegis.workflow.create', { manifest_yaml: raw })
    expect(outcome).toMatchObject({ kind: 'done', warnings: expect.arrayContaining([warning]) })
  })

  test('a text that asks for too much work fails its state, by field', async () => {
    const client = await (await setModelStage(undefined)).start()
    const rows = Array.from({ length: 3_000 }, (_, index) => index)
    const yaml = workflowYaml(
      'heavy',
      `A: { kind: System, command: 'echo {{#each input.rows}}{{length (json ../input.rows)}}{{/each}}', transitions: [] }`,
    )
    const end = await ended(client, await start(client, yaml, { input: { rows } }))
    expect(end).toMatchObject({ status: 'failed', error: { code: 'ERR_WORKFLOW_FAILED' } })
    expect(end.error?.message).toMatch(/spec\.states\.A\.command: .*Use smaller values/)
  })
})
