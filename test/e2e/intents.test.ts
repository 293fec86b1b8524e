import { describe, expect, onTestFinished, test } from 'vitest'
import { createSealClient } from '../../src/seal-client/seal-client.ts'
import type { CastellanClient } from '../support/castellan-client.ts'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { type ModelStage, setModelStage } from '../support/model-stage.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'
import { startServerHere } from '../support/server-here.ts'

/** Intents in the whole program, with a scripted model over HTTP and real workspaces. */
type Answer = Record<string, unknown>
type Script = (request: SeenRequest, position: number) => Line | Promise<Line>
type Stage = ModelStage & Readonly<{ client: CastellanClient }>

// Workspaces that do not say otherwise reach the internet, so those of intents must say it.
const workspaces = { default_allow_internet: true, store_gb: 0 }

async function setStage(script: Script | undefined, aliases: readonly string[] = ['default']): Promise<Stage> {
  const stage = await setModelStage(script, { workspaces }, aliases)
  return { ...stage, client: await stage.start() }
}

const workflowYaml = (name: string, state = 'done') =>
  `apiVersion: 100monkeys.ai/v1\nkind: Workflow\nmetadata:\n  name: ${name}\n  version: "1.0.0"\nspec:\n  initial_state: ${state}\n  states:\n    done:\n      kind: System\n      command: "true"\n      transitions: []\n`
const manifest = (yaml: string): Line => ({ text: JSON.stringify({ manifest_yaml: yaml, summary: 'as requested' }) })
const isAuthor = ({ text }: SeenRequest) => text.includes('Write the manifest of a')
const isFormatter = ({ text }: SeenRequest) => text.includes('output of the program')
const executor = (name: string) => agentYaml(name, '  task: { instruction: "Write programs." }\n')
const code = (text: string): Line => ({ text: JSON.stringify({ file: 'solution', code: text }) })

describe('agents and workflows from requests', () => {
  test('an agent whose manifest is wrong at first is repaired, and deployed for the caller', async () => {
    const wrong = executor('adder').replace('kind: Agent', 'kind: Agnet')
    const strange = `${executor('adder')}  tools: [no.such.tool]\n`
    const { client, requests } = await setStage((_, position) =>
      manifest(position === 0 ? wrong : position === 1 ? strange : executor('adder')),
    )
    const started = await ask<{ execution_id: string; status: string }>(client, 'aegis.agent.generate', {
      input: 'adds numbers',
    })
    expect(started).toEqual({ execution_id: expect.any(String), status: 'started' })
    const end = await ask<{ last_output: string; status: string; iteration_count: number }>(
      client,
      'aegis.agent.wait',
      {
        execution_id: started.execution_id,
      },
    )
    expect(end).toMatchObject({ status: 'completed', iteration_count: 3 })
    expect(requests[1]!.text).toContain('the manifest is not valid')
    expect(requests[2]!.text).toContain('spec.tools')
    const made = JSON.parse(end.last_output) as { agent_id: string }
    expect(made).toMatchObject({ name: 'adder', version: '1.0.0', deployed: true })
    expect(await ask(client, 'aegis.agent.export', { name: 'adder' })).toMatchObject({ id: made.agent_id })
  })

  test('the author sees no more than the default context allows, though an operator calls', async () => {
    const yaml = executor('boss').replace('spec:\n', 'spec:\n  security_context: aegis-system-operator\n')
    const { client, requests } = await setStage((_, position) => {
      if (position === 0) return { toolCalls: [{ name: 'aegis_agent_create', arguments: { manifest_yaml: yaml } }] }
      return manifest(yaml)
    })
    const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.agent.generate', { input: 'rule' })
    const end = await ask(client, 'aegis.task.wait', { execution_id })
    expect(end).toMatchObject({ status: 'failed', last_error: expect.stringContaining('ERR_ITERATIONS_EXHAUSTED') })
    expect(JSON.stringify(requests[1]!.messages)).toContain('not available')
    expect(requests.at(-1)!.text).toContain('aegis-system-* are for operators')
    expect(await ask(client, 'aegis.agent.list', {})).toMatchObject({ agents: [] })
  })

  test('a judge of manifests is asked where a model for judges is configured', async () => {
    let judged = 0
    const { client, requests } = await setStage(
      ({ model }) => {
        if (model !== 'judge') return manifest(executor('adder'))
        const score = ++judged === 1 ? 0.2 : 0.9
        return { text: JSON.stringify({ score, confidence: 1, reasoning: 'it is vague' }) }
      },
      ['default', 'judge'],
    )
    const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.agent.generate', { input: 'adds' })
    expect(await ask(client, 'aegis.task.wait', { execution_id })).toMatchObject({ status: 'completed' })
    expect(judged).toBe(2)
    expect(requests.filter(({ model }) => model === 'default').at(-1)!.text).toContain('it is vague')
  })

  test('a workflow is written, repaired, registered, and waited for as a workflow', async () => {
    const { client, requests } = await setStage((_, position) =>
      manifest(position === 0 ? workflowYaml('night', 'missing') : workflowYaml('night')),
    )
    const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.workflow.generate', {
      input: 'every night',
    })
    const end = await ask<{ blackboard: Answer }>(client, 'aegis.workflow.wait', { execution_id })
    expect(end).toMatchObject({ execution_id, status: 'completed', blackboard: { name: 'night', deployed: true } })
    expect(requests[1]!.text).toContain('the manifest is not valid')
    expect(await ask(client, 'aegis.workflow.export', { name: 'night' })).toMatchObject({
      id: end.blackboard['workflow_id'],
    })
  })

  test('without a model nothing is made, and the answer says what to set', async () => {
    const { client } = await setStage(undefined)
    const requests = [
      ['aegis.agent.generate', { input: 'x' }],
      ['aegis.workflow.generate', { input: 'x' }],
      ['aegis.execute.intent', { intent: 'x' }],
      ['aegis.execute', { prompt: 'x' }],
    ] as const
    for (const [tool, args] of requests) {
      expect(await client.call(tool, args)).toMatchObject({
        kind: 'failed',
        code: 'ERR_MODEL_UNAVAILABLE',
        message: expect.stringContaining('models.providers'),
      })
    }
    expect(await ask(client, 'aegis.task.list', {})).toEqual({ executions: [] })
    expect(await ask(client, 'workspace_list', {})).toMatchObject({ workspaces: [] })
  })
})

type Started = { pipeline_execution_id: string; status: string; stream_url: string }
const finish = async (client: CastellanClient, id: string): Promise<Answer> => {
  await ask(client, 'aegis.execute.wait', { execution_id: id, timeout_seconds: 45 })
  return ask(client, 'aegis.execute.status', { pipeline_execution_id: id })
}

describe('from an intent to a result', () => {
  const programs = {
    python: 'import json, os\nprint(sum(json.loads(os.environ["INTENT_INPUTS"])["numbers"]))\n',
    javascript: 'console.log(JSON.parse(process.env.INTENT_INPUTS).numbers.reduce((a, b) => a + b))\n',
    bash: 'echo $(( $(echo "$INTENT_INPUTS" | tr -dc "0-9,\\n" | tr , +) ))\n',
  }

  test('an agent is made, then found again; each language runs', async () => {
    let language: keyof typeof programs = 'python'
    const { client, requests } = await setStage((request) => {
      if (isAuthor(request))
        return manifest(
          executor(`summing-${language}`).replace(
            'version: "1.0.0"',
            `version: "1.0.0"\n  description: Sums numbers in ${language}.\n  labels: { language: ${language} }`,
          ),
        )
      if (isFormatter(request)) return { text: `The sum is ${/program:\n(\d+)/.exec(request.text)?.[1]}.` }
      return code(programs[language])
    })
    for (language of ['python', 'javascript', 'bash'] as const) {
      const started = await ask<Started>(client, 'aegis.execute.intent', {
        intent: `sum numbers ${language}`,
        inputs: { numbers: [20, 22] },
        language,
        timeout_seconds: 30,
      })
      expect(started).toMatchObject({ status: 'started' })
      expect(started.stream_url).toBe(`/v1/workflows/executions/${started.pipeline_execution_id}/logs/stream`)
      expect(await finish(client, started.pipeline_execution_id)).toEqual({
        status: 'completed',
        final_result: 'The sum is 42.',
        duration_ms: expect.any(Number),
        reused_existing_agent: false,
      })
    }
    const authored = requests.filter(isAuthor).length
    const again = await ask<Started>(client, 'aegis.execute', {
      prompt: 'sums numbers in bash',
      inputs: { numbers: [1] },
      language: 'bash',
    })
    expect(await finish(client, again.pipeline_execution_id)).toMatchObject({ reused_existing_agent: true })
    expect(requests.filter(isAuthor)).toHaveLength(authored)
    expect(await ask(client, 'workspace_list', {})).toMatchObject({ workspaces: [] })
    const { events } = await ask<{ events: { event_type: string }[] }>(client, 'aegis.workflow.logs', {
      execution_id: again.pipeline_execution_id,
    })
    expect(events[0]!.event_type).toBe('intent_execution_pipeline_started')
    expect(events.at(-1)!.event_type).toBe('intent_execution_pipeline_completed')
  })

  test('what fails goes back to the agent: a program that breaks, then one that is none', async () => {
    const answers: Line[] = [
      code('import sys\nsys.exit("no luck")'),
      code('print(1'),
      { text: 'Here:\n```python\nprint("fine")\n```\n' },
    ]
    let asked = 0
    const { client, requests } = await setStage((request) => {
      if (isAuthor(request)) return manifest(executor('helper'))
      return isFormatter(request) ? { status: 400 } : answers[asked++]!
    })
    const { pipeline_execution_id: id } = await ask<Started>(client, 'aegis.execute.intent', { intent: 'say fine' })
    // The formatter fails, so the output itself is the result.
    expect(await finish(client, id)).toMatchObject({ status: 'completed', final_result: 'fine\n' })
    const prompts = requests.filter(({ text }) => text.includes('INTENT_INPUTS'))
    expect(prompts[1]!.text).toContain('it exited with code 1: no luck')
    expect(prompts[2]!.text).toContain('it is not a Python program')
    expect(prompts[2]!.text).toContain('print(1')
  })

  test('a program that never works ends the pipeline, with the reason and the state', async () => {
    let seen: Answer = {}
    const stage: Stage = await setStage(async (request) => {
      if (isAuthor(request)) return manifest(executor('helper'))
      const { workspaces } = await ask<{ workspaces: { workspace_id: string }[] }>(stage.client, 'workspace_list', {})
      seen = await ask(stage.client, 'workspace_info', { workspace_id: workspaces[0]!.workspace_id })
      return code('import sys\nsys.exit("out of luck")')
    })
    const { client, requests } = stage
    const { pipeline_execution_id: id } = await ask<Started>(client, 'aegis.execute.intent', { intent: 'try' })
    expect(await finish(client, id)).toEqual({
      status: 'failed',
      reason: expect.stringContaining('out of luck'),
      failed_at_state: 'code_execution',
    })
    expect(requests.filter(({ text }) => text.includes('INTENT_INPUTS'))).toHaveLength(3)
    expect(await ask(client, 'aegis.workflow.wait', { execution_id: id })).toMatchObject({
      status: 'failed',
      current_state: 'code_execution',
      blackboard: { exit_code: 1, agent: { name: 'helper' } },
      error: { code: 'ERR_INTENT_FAILED' },
    })
    expect(seen).toMatchObject({
      name: `intent-${id}`,
      resources: { vcpus: 1, memory_mb: 256 },
      network: { allow_internet: false, allow_inter_vm: false, allowed_domains: [] },
    })
    expect(await ask(client, 'workspace_list', {})).toMatchObject({ workspaces: [] })
  })

  test('runs in a workspace of the caller, and leaves nothing but what the program made', async () => {
    let asked = 0
    const { client, requests } = await setStage((request) => {
      if (isAuthor(request)) return manifest(executor('helper'))
      if (isFormatter(request)) return { text: 'done' }
      if (asked++ === 0) return { text: 'I would rather not.' }
      return code('open("made.txt", "w").write(open("given.txt").read() * 2)')
    })
    await ask(client, 'workspace_create', { name: 'mine', allow_internet: false })
    await ask(client, 'file_write', { workspace_id: 'mine', path: '/workspace/given.txt', content: 'ab' })
    const args = { intent: 'double', volume_id: 'mine' }
    const { pipeline_execution_id: id } = await ask<Started>(client, 'aegis.execute.intent', args)
    expect(await finish(client, id)).toMatchObject({ status: 'completed', final_result: 'done' })
    expect(requests.some(({ text }) => text.includes('contained no program'))).toBe(true)
    expect(await ask(client, 'file_read', { workspace_id: 'mine', path: '/workspace/made.txt' })).toMatchObject({
      content: 'abab',
    })
    const { entries } = await ask<{ entries: { name: string }[] }>(client, 'file_list', {
      workspace_id: 'mine',
      path: '/workspace',
    })
    expect(entries.map(({ name }) => name).sort()).toEqual(['given.txt', 'made.txt'])
    const missing = await ask<Started>(client, 'aegis.execute.intent', { ...args, volume_id: 'nobodys' })
    expect(await finish(client, missing.pipeline_execution_id)).toMatchObject({
      status: 'failed',
      failed_at_state: 'agent_discovery',
      reason: expect.stringContaining('ERR_WORKSPACE_NOT_FOUND'),
    })
  })

  test('what bounds the caller bounds the agents of the pipeline', async () => {
    const script: Script = (request) => {
      if (isAuthor(request))
        return manifest(
          agentYaml('curious', '  task: { instruction: "Write programs." }\n  tools: [aegis.tools.list]\n'),
        )
      if (isFormatter(request)) return { text: 'done' }
      const isTold = request.messages.some(({ role }) => role === 'tool')
      return isTold ? code('echo 1\n') : { toolCalls: [{ name: 'aegis_tools_list', arguments: {} }] }
    }
    const security_contexts = [{ name: 'narrow', capabilities: [{ tool_pattern: 'aegis.execute.*' }] }]
    const { dataDir, requests } = await setModelStage(script, { security_contexts })
    const server = await startServerHere({ dataDir, env: { MODEL_KEY: 'k' } })
    onTestFinished(() => server.stop())
    const client = createSealClient({ url: new URL(server.url).origin, securityContext: 'narrow' })
    const started = await client.call('aegis.execute.intent', { intent: 'print one', language: 'bash' })
    const { pipeline_execution_id: id } = started as Started
    await client.call('aegis.execute.wait', { execution_id: id, timeout_seconds: 45 })
    expect(await client.call('aegis.execute.status', { pipeline_execution_id: id })).toMatchObject({
      status: 'completed',
    })
    const answers = requests.flatMap(({ messages }) => messages.filter(({ role }) => role === 'tool'))
    expect(JSON.stringify(answers)).toContain('is not available')
  })

  test('a program is reviewed where a model for judges is configured', async () => {
    const reviews: string[] = []
    const { client } = await setStage(
      (request) => {
        if (isAuthor(request)) return manifest(executor('helper'))
        if (isFormatter(request)) return { text: 'done' }
        if (request.model === 'judge') {
          const isReview = request.text.includes('Review the code')
          if (isReview) reviews.push(request.text)
          const score = isReview && reviews.length === 1 ? 0.1 : 0.9
          return { text: JSON.stringify({ score, confidence: 1, reasoning: 'it deletes too much' }) }
        }
        return code(request.text.includes('it deletes too much') ? 'print("kept")' : 'print("deleted")')
      },
      ['default', 'judge'],
    )
    const { pipeline_execution_id: id } = await ask<Started>(client, 'aegis.execute.intent', { intent: 'tidy' })
    expect(await finish(client, id)).toMatchObject({ status: 'completed' })
    expect(reviews).toHaveLength(2)
    expect(await ask(client, 'aegis.execute.wait', { execution_id: id })).toMatchObject({
      blackboard: { stdout: 'kept\n' },
    })
  })

  test('goes on after the server was killed, without asking the author again', async () => {
    const waiting = Promise.withResolvers<void>()
    let isKilled = false
    const stage = await setModelStage(async (request) => {
      if (isAuthor(request)) return manifest(executor('helper'))
      if (isFormatter(request)) return { text: 'done' }
      waiting.resolve()
      return isKilled ? code('print(1)') : new Promise<Line>(() => {})
    })
    const first = await stage.startProcess()
    const { pipeline_execution_id: id } = await ask<Started>(first, 'aegis.execute.intent', { intent: 'print' })
    await waiting.promise
    isKilled = true
    first.kill('SIGKILL')
    await first.ended
    const client = await stage.start()
    expect(await finish(client, id)).toMatchObject({ status: 'completed', final_result: 'done' })
    expect(stage.requests.filter(isAuthor)).toHaveLength(1)
  })
})
