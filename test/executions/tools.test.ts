import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { rightsOf } from '../../src/contract/permissions.ts'
import { localOwner, type Principal } from '../../src/contract/principal.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml } from '../support/executions.ts'
import { call, judge, openToolLoop, worker } from '../support/tool-loop.ts'
import { answer, serveWeb } from '../support/web-server.ts'
import { register, start, untilEvent, workflowYaml } from '../support/workflows.ts'

/** Tool calls of the inner loop, in a real workspace. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({
    config: {
      'rate_limits.enabled': false,
      'web.allow_private_addresses': ['127.0.0.1'],
    },
  })
})
afterAll(() => app[Symbol.asyncDispose]())

const open = (request: Parameters<typeof openToolLoop>[1]) => openToolLoop(app, request)
const workspaces = async () => (await app.ask<{ workspaces: unknown[] }>('workspace_list')).workspaces.length

describe('an agent with tools', () => {
  test('works in a workspace of its own, which is gone afterwards', async () => {
    const { loop, model } = await open({
      agents: { worker: worker('  advanced: { startup_script: "echo ready > /workspace/started" }\n') },
      script: [
        {
          toolCalls: [
            { name: 'fs_write', arguments: { path: '/workspace/a.txt', content: 'hello' } },
            { name: 'cmd_run', arguments: { command: 'cat', args: ['a.txt', 'started'] } },
          ],
        },
        call('fs_read', { path: 'nothing.txt' }),
        { text: 'done' },
      ],
    })
    const run = await loop.finish('worker')
    expect(run).toMatchObject({ status: 'completed', text: 'done' })
    const seen = model.requests.at(-1)!.text
    expect(seen).toContain('helloready')
    expect(seen).toContain('Tool execution error:')
    expect(await loop.eventTypes(run.id)).toEqual(
      expect.arrayContaining([
        'instance_spawned',
        'tool_invocation_completed',
        'tool_invocation_failed',
        'console_output',
        'instance_terminated',
      ]),
    )
    const calls = (await loop.engine.journal(run.id)).filter(({ type }) => type.startsWith('tool_invocation_'))
    const told = (type: string, tool: string) => ({ type: `tool_invocation_${type}`, tool })
    expect(calls.map(({ type, payload }) => ({ type, tool: (payload as { tool: string }).tool }))).toEqual([
      told('requested', 'fs.write'),
      told('requested', 'cmd.run'),
      told('started', 'fs.write'),
      told('completed', 'fs.write'),
      told('started', 'cmd.run'),
      told('completed', 'cmd.run'),
      told('requested', 'fs.read'),
      told('started', 'fs.read'),
      told('failed', 'fs.read'),
    ])
    expect(await workspaces()).toBe(0)
    const log = await app.log()
    const written = log.find(({ tool }) => tool === 'fs.write')!
    expect(written).toMatchObject({ door: 'agent', principal: { kind: 'agent', actor: 'agent:worker' } })
  })

  test('gets no tool that the manifest does not list, whatever the model calls', async () => {
    const { loop, model } = await open({
      agents: { worker: worker() },
      script: [call('fs_delete', { path: '/workspace', recursive: true }), call('workspace_list', {}), { text: 'ok' }],
    })
    const run = await loop.finish('worker')
    expect(run.status).toBe('completed')
    expect(model.requests[1]!.text).toContain('Do not try it again')
    expect((await app.log()).some(({ tool }) => tool === 'fs.delete')).toBe(false)
    expect(await loop.eventTypes(run.id)).toContain('tool_policy_violation')
  })

  test('is told which field of the manifest keeps a listed tool from it', async () => {
    const bound = agentYaml(
      'bound',
      '  task: { instruction: "Work." }\n  tools: ["fs.*", web.fetch]\n  security: { network: { mode: none }, filesystem: { read_only: true } }\n',
    )
    const { loop, model } = await open({
      agents: { bound },
      script: [
        call('web_fetch', { url: 'https://a.org' }),
        call('fs_write', { path: 'a', content: '' }),
        { text: 'ok' },
      ],
    })
    expect((await loop.finish('bound')).status).toBe('completed')
    expect(model.requests[1]!.text).toContain('spec.security.network.mode is none; available tools: fs.')
    expect(model.requests[2]!.text).toContain('spec.security.filesystem.read_only is true; available tools: fs.')
    expect(model.requests[2]!.text).not.toContain('..')
  })

  test('may go one level deep where its manifest says so, and sees what is there', async () => {
    const one = '  security: { filesystem: { read: ["/workspace/*"], write: ["/workspace/*"] } }\n'
    const { loop, model } = await open({
      agents: { worker: worker(one).replace('fs.read,', 'fs.read, fs.list, fs.glob, fs.delete,') },
      script: [
        call('cmd_run', { command: 'mkdir d && echo above > a.txt && echo below > d/b.txt' }),
        call('fs_list', { path: '/workspace' }),
        call('fs_glob', { path: '/workspace', pattern: '**' }),
        call('fs_read', { path: 'a.txt' }),
        call('fs_read', { path: 'd/b.txt' }),
        call('fs_write', { path: 'd/c.txt', content: 'x' }),
        call('fs_delete', { path: '/workspace', recursive: true }),
        { text: 'done' },
      ],
    })
    expect(await loop.finish('worker')).toMatchObject({ status: 'completed' })
    const answers = model.requests.at(-1)!.messages.filter(({ role }) => role === 'tool')
    const texts = answers.map(({ content }) => JSON.stringify(content))
    expect(texts[1]).toContain('a.txt')
    expect(texts[2]).toContain('a.txt')
    expect(texts[2]).not.toContain('b.txt')
    expect(texts[3]).toContain('above')
    for (const refused of texts.slice(4)) expect(refused).toContain('outside')
  })

  test('has of a tool written as an object what its config allows, and no more', async () => {
    const config = '{ allowed_paths: [/workspace/src], access_mode: read-only }'
    const spec = agentYaml(
      'worker',
      `  task: { instruction: "Work." }\n  tools: [{ name: fs, executor: "builtin:fs", config: ${config} }]\n`,
    )
    const { loop, model } = await open({
      agents: { worker: spec },
      script: [
        call('fs_write', { path: '/workspace/src/a', content: 'x' }),
        call('fs_read', { path: '/workspace/b' }),
        { text: 'done' },
      ],
    })
    expect(await loop.finish('worker')).toMatchObject({ status: 'completed' })
    const answers = model.requests.at(-1)!.messages.filter(({ role }) => role === 'tool')
    expect(JSON.stringify(answers[0]!.content)).toContain('it is not in spec.tools')
    expect(JSON.stringify(answers[1]!.content)).toContain('PathOutsideBoundary')
  })

  test('writes nothing where its manifest says only what it may read', async () => {
    const only = '  security: { filesystem: { read: [/workspace] } }\n'
    const spec = agentYaml('worker', `  task: { instruction: "Work." }\n  tools: [fs.read, fs.write]\n${only}`)
    const script = [call('fs_write', { path: 'a', content: 'x' }), { text: 'done' }]
    const { loop, model } = await open({ agents: { worker: spec }, script })
    expect(await loop.finish('worker')).toMatchObject({ status: 'completed' })
    expect(model.requests.at(-1)!.text).toContain('spec.security.filesystem lets nothing be written')
  })

  test('prints through its bootstrap, whose exit code and output are judged', async () => {
    const spec = worker(`  advanced:
    bootstrap_path: /workspace/boot.sh
    startup_script: |
      printf '#!/bin/sh\\necho "[BOOTSTRAP] up"; printf "%%s-" "$AEGIS_ITERATION"; cat; exit $((2 - AEGIS_ITERATION))\\n' > /workspace/boot.sh
      chmod +x /workspace/boot.sh
  execution:
    mode: iterative
    validation:
      - { type: exit_code, expected: 0 }
`)
    const { loop } = await open({ agents: { worker: spec }, script: [{ text: 'answer' }] })
    expect(await loop.finish('worker')).toMatchObject({ status: 'completed', text: '2-answer', iteration: 2 })
  })

  test('goes on however much a judge had to say of the last try', async () => {
    const spec =
      '  execution:\n    mode: iterative\n    max_iterations: 2\n    validation: [{ type: semantic, judge_agent: judge, criteria: c }]\n'
    let asked = 0
    const { loop } = await open({
      agents: { worker: worker(spec), judge },
      script: ({ text }) =>
        text.includes('Judge.')
          ? { text: JSON.stringify({ score: asked++, confidence: 1, reasoning: 'é'.repeat(200_000) }) }
          : { text: 'work' },
    })
    expect(await loop.finish('worker')).toMatchObject({ status: 'completed', iteration: 2 })
  })

  test('goes on from the output of a process as journals recorded it, now and before', async () => {
    const spec = worker('  execution: { max_iterations: 1, validation: [{ type: exit_code, expected: 3 }] }\n')
    const { loop } = await open({ agents: { worker: spec }, script: [{ text: 'answer' }] })
    const first = await loop.finish('worker', { keepWorkspace: true })
    expect(first.status).toBe('failed')
    const rows = (await loop.engine.journal(first.id)).filter(({ key }) => key !== null)
    const last = rows.findIndex(({ type }) => type === 'console_output')
    expect(rows[last]!.payload).toEqual({ exit_code: 0, stdout: 'answer', stderr: '', timed_out: false })
    for (const payload of [
      { exit_code: 3, stdout: 'now', stderr: '', timed_out: false },
      { exitCode: 3, stdout: 'before', stderr: '', timedOut: false },
    ]) {
      const journal = [...rows.slice(0, last), { ...rows[last]!, payload }]
      const { subjectId, input } = first
      const { id } = await loop.engine.run({ subjectId, input, journal })
      expect(await loop.engine.end(id)).toMatchObject({ status: 'completed', output: { text: payload.stdout } })
    }
    const { workspace_id } = first.output as { workspace_id: string }
    await app.ask('workspace_destroy', { workspace_id })
  })

  test('has the environment of its manifest in its commands', async () => {
    const { loop, model } = await open({
      agents: { worker: worker('  env: { LEVEL: info, GITHUB_TOKEN: "secret:token" }\n') },
      script: [
        call('cmd_run', { command: 'echo "$LEVEL $GITHUB_TOKEN $AEGIS_ITERATION $AEGIS_AGENT_ID"' }),
        { text: 'done' },
      ],
    })
    expect((await loop.finish('worker')).status).toBe('completed')
    expect(model.requests.at(-1)!.text).toContain('info s3cret 1 id-of-worker')
  })

  test('does not bring a secret into the workspace of a user who could not name it', async () => {
    const { loop, model } = await open({
      agents: { worker: worker('  env: { GITHUB_TOKEN: "secret:token" }\n') },
      script: [{ text: 'done' }],
    })
    const ann: Principal = {
      ...localOwner,
      kind: 'key',
      keyId: 'key_ann',
      actor: 'ann',
      ...rightsOf('member'),
      tier: 'user',
    }
    const made = await app.ask<{ workspace_id: string }>('workspace_create', { name: 'trap' })
    const command = 'mkdir -p /root/.local/bin; cd /root/.local/bin; printf "env > /workspace/seen" > cat; chmod +x cat'
    await app.ask('exec', { workspace_id: 'trap', command })
    for (const workspaceId of [null, made.workspace_id]) {
      const run = await loop.finish('worker', { workspaceId }, ann)
      expect(run).toMatchObject({ status: 'failed', error: { code: 'ERR_PERMISSION_DENIED' } })
      expect(run.error!.message).toContain('spec.env.GITHUB_TOKEN: it names a secret')
    }
    expect(model.requests).toHaveLength(0)
    const { stdout } = await app.ask<{ stdout: string }>('exec', { workspace_id: 'trap', command: 'ls /workspace' })
    expect(stdout).not.toContain('seen')
    await app.ask('workspace_destroy', { workspace_id: 'trap' })
  })

  test('reads pages for its context only where its network policy lets it', async () => {
    await using server = await serveWeb({ '/page': answer('what the page says') })
    const reader = (network: string) =>
      agentYaml(
        'reader',
        `  task: { instruction: "Read." }\n  security: { network: ${network} }\n  context: [{ type: url, url: "${server.at('/page')}" }]\n`,
      )
    const outcome = async (network: string) => {
      const { loop } = await open({ agents: { reader: reader(network) }, script: [{ text: 'done' }] })
      return await loop.finish('reader')
    }
    for (const network of ['{ mode: none }', '{ mode: allow, allowlist: [example.org] }']) {
      const run = await outcome(network)
      expect(run.error).toMatchObject({ code: 'ERR_POLICY_VIOLATION' })
      expect(run.error!.message).toContain('spec.context[0]')
    }
    expect(server.requests).toHaveLength(0)
    expect(await outcome('{ mode: allow, allowlist: ["127.0.0.1"] }')).toMatchObject({ status: 'completed' })
    expect(server.requests).toHaveLength(1)
  })

  test('may reach everything when its list of hosts says so', async () => {
    const { loop, model } = await open({
      agents: { worker: worker('  security: { network: { mode: allow, allowlist: ["*"] } }\n') },
      script: [call('cmd_run', { command: 'echo', args: ['up'] }), { text: 'done' }],
    })
    expect(await loop.finish('worker')).toMatchObject({ status: 'completed', text: 'done' })
    expect(model.requests.at(-1)!.text).toContain('up')
  })

  test('hands its output to a container with the limits that it names', async () => {
    const handler = (memory: string) =>
      worker(
        `  output_handler: { type: container, image: a/b, command: [rev], required: true, resources: { memory: ${memory} } }\n`,
      )
    const outcome = async (memory: string) => {
      const { loop } = await open({ agents: { worker: handler(memory) }, script: [{ text: 'abc' }] })
      return await loop.finish('worker')
    }
    expect(await outcome('64Mi')).toMatchObject({ status: 'completed', text: expect.stringContaining('cba') })
    const refused = await outcome('900Gi')
    expect(refused.error).toMatchObject({ code: 'ERR_OUTPUT_HANDLER_FAILED' })
    expect(refused.error!.message).toContain('memory_mb')
  })

  test('hands its output to a container as a word of its command', async () => {
    const handler = worker(
      '  output_handler: { type: container, image: a/b, command: [echo, "<{{output}}>"], required: true }\n',
    )
    const { loop } = await open({ agents: { worker: handler }, script: [{ text: 'a; echo $(id)' }] })
    expect(await loop.finish('worker')).toMatchObject({ status: 'completed', text: '<a; echo $(id)>\n' })
  })

  test('does not answer for a person, whatever name it gives', async () => {
    await register(app, workflowYaml('gate', 'A: { kind: Human, prompt: "Publish?", transitions: [] }'))
    const execution_id = await start(app, 'gate')
    await untilEvent(app, execution_id, 'wait_began')
    const { loop, model } = await open({
      agents: { eager: agentYaml('eager', '  task: { instruction: "Go." }\n  tools: [aegis.workflow.signal]\n') },
      script: [
        call('aegis_workflow_signal', { execution_id, response: '{"response": "approved", "by": "Ann"}' }),
        { text: 'done' },
      ],
    })
    await loop.finish('eager')
    expect(model.requests.at(-1)!.text).toContain('a person must answer')
    expect((await app.ask('aegis.workflow.status', { execution_id }))['waiting_for']).not.toBeNull()
    await app.ask('aegis.workflow.cancel', { execution_id })
  })

  test('that gets no workspace leaves nothing to tidy up', async () => {
    const { loop } = await open({
      agents: { worker: worker() },
      deps: { imageOf: async () => 'no-such-image' },
      script: [],
    })
    const before = (await app.log()).length
    const run = await loop.finish('worker')
    expect(run.status).toBe('failed')
    const failed = (await loop.engine.journal(run.id)).filter(({ type }) => type === 'step_failed')
    expect(failed.map(({ key }) => key)).toEqual(['workspace'])
    expect((await app.log()).slice(before).map(({ tool }) => tool)).not.toContain('workspace_destroy')
  })

  test('is stopped with the processes it started', async () => {
    const { loop } = await open({
      agents: { worker: worker() },
      script: [call('cmd_run', { command: 'sleep', args: ['600'] }), { text: 'never' }],
    })
    const { id } = await loop.execute('worker')
    await loop.engine.until(id, (run) => run.lastSequence >= 6)
    await loop.engine.call((one) => loop.engine.cancel(one, id))
    expect(await loop.engine.end(id)).toMatchObject({ status: 'cancelled' })
    expect(await workspaces()).toBe(0)
  })
})
