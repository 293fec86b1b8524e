import { expect, test } from 'vitest'
import { agentYaml } from '../support/executions.ts'
import { startKeyedServer } from '../support/keyed-server.ts'
import { PASSWORD, postForm, type Row, signIn } from '../support/people.ts'

/** A run of a user with a custom role, in the real program: it has the rights of the role while the user has them. */
const worker = agentYaml('worker', '  task: { instruction: "Work." }\n  tools: [task_create, task_update]\n')
const running = ['agent:read', 'agent:execute', 'execution:read', 'task:read'] as const

test('a run has exactly the rights of the custom role of its user, and loses those that the user loses', async () => {
  const asking = Promise.withResolvers<void>()
  const changed = Promise.withResolvers<void>()
  const create = (title: string) => ({ name: 'task_create', arguments: { title, project: 'p' } })
  const { url, call, requests } = await startKeyedServer(async (_, position) => {
    if (position === 0) return { toolCalls: [create('before')] }
    if (position === 1)
      return { toolCalls: [{ name: 'task_update', arguments: { task_id: 'T-0001', title: 'other' } }] }
    if (position > 2) return { text: 'done' }
    asking.resolve()
    await changed.promise
    return { toolCalls: [create('after')] }
  })
  await call('aegis.agent.create', { manifest_yaml: worker })
  await call('role_create', { name: 'author', permissions: [...running, 'task:create'] })
  await call('role_create', { name: 'reader', permissions: running })
  const email = 'ann@example.com'
  const { link } = await call('user_create', { email, role: 'author' })
  await postForm(new URL(new URL(String(link)).pathname, url), { password: PASSWORD, again: PASSWORD })
  const cookie = await signIn({ url }, { email, password: PASSWORD })
  const asAnn = async (tool: string, args: object): Promise<Row> => {
    const response = await fetch(new URL(`/v1/tools/${tool}`, url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', cookie },
      body: JSON.stringify(args),
    })
    return (await response.json()) as Row
  }

  const { execution_id } = await asAnn('aegis.task.execute', { agent_id: 'worker' })
  await asking.promise
  await call('user_update', { user: email, role: 'reader' })
  changed.resolve()
  expect(await call('aegis.task.wait', { execution_id, timeout_seconds: 60 })).toMatchObject({ status: 'completed' })

  const { tasks } = await call('task_list', { project: 'p' })
  expect(tasks).toMatchObject([{ title: 'before' }])
  const results = requests
    .at(-1)!
    .messages.filter(({ role }) => role === 'tool')
    .map(({ content }) => String(content))
  expect(results).toEqual([
    expect.stringContaining('"task_id":"T-0001"'),
    expect.stringContaining('may not use it'),
    expect.stringContaining('ERR_PERMISSION_DENIED'),
  ])
})
