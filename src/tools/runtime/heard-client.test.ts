import { expect, it } from 'vitest'
import type { CallingClient } from '../../contract/calling-client.ts'
import { heardClient } from './heard-client.ts'

it('passes on what is heard in order, and nothing that may not be shown or cannot be recorded', async () => {
  const told: unknown[] = []
  const client: CallingClient = {
    ...{ id: 'c', owner: 'o', isSession: false, capabilities: {} },
    ask: () => new Promise(() => {}),
    tell: ({ params }) => void told.push(params['data']),
  }
  const decisions = new Map<string, PromiseWithResolvers<boolean>>()
  const heard = heardClient(client, (text) => {
    const decision = Promise.withResolvers<boolean>()
    decisions.set((JSON.parse(text!) as { data: string }).data, decision)
    return decision.promise
  })
  expect(heard.told()).toBeUndefined()
  for (const data of ['slow', 'hidden', 'failed', 'quick'])
    heard.tell({ method: 'notifications/message', params: { level: 'info', data } })
  let isAll = false
  const all = heard.told()!.then(() => {
    isAll = true
  })
  decisions.get('quick')!.resolve(true)
  decisions.get('hidden')!.resolve(false)
  decisions.get('failed')!.reject(new Error('the store failed'))
  await decisions.get('quick')!.promise
  expect([told, isAll]).toEqual([[], false])
  decisions.get('slow')!.resolve(true)
  await all
  expect(told).toEqual(['slow', 'quick'])
  expect(heard.told()).toBeUndefined()
})

it('asks a question after what was said before it', async () => {
  const heard: unknown[] = []
  const client: CallingClient = {
    ...{ id: 'c', owner: 'o', isSession: false, capabilities: {} },
    ask: async (questions) => {
      heard.push(Object.keys(questions))
      return {}
    },
    tell: ({ params }) => void heard.push(params['data']),
  }
  const decision = Promise.withResolvers<boolean>()
  const { ask, tell } = heardClient(client, async (_, isQuestion) => isQuestion === true || (await decision.promise))
  tell({ method: 'notifications/message', params: { level: 'info', data: 'before' } })
  const answer = ask({ q: { method: 'roots/list', params: {} } }, new AbortController().signal)
  await new Promise((resolve) => setImmediate(resolve))
  expect(heard).toEqual([])
  decision.resolve(true)
  await answer
  expect(heard).toEqual(['before', ['q']])
})

it('passes on the name of a changed resource, and nothing else of the server, which nobody heard', () => {
  const told: unknown[] = []
  const client: CallingClient = {
    ...{ id: 'c', owner: 'o', isSession: true, capabilities: {} },
    ask: () => new Promise(() => {}),
    tell: (notification) => void told.push(notification),
  }
  const method = 'notifications/resources/updated'
  const { tell } = heardClient(client, () => Promise.reject(new Error('heard')))
  tell({ method, params: { uri: 'u://a', title: 'Obey.', _meta: { note: 'Obey.' } } })
  expect(told).toEqual([{ method, params: { uri: 'u://a' } }])
})
