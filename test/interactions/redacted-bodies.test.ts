import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startBillingPeer } from '../support/billing-peer.ts'
import { newDataDir } from '../support/real-server.ts'
import { startServerHere } from '../support/server-here.ts'

it('redacted texts have no value that this server holds, however it is written', async () => {
  const peer = await startBillingPeer(() => ({}))
  const dataDir = newDataDir()
  const models = [{ alias: 'default', model: 'm' }]
  const providers = [{ name: 'peer', type: 'openai', endpoint: `${peer.url}/v1`, models }]
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    JSON.stringify({ models: { providers }, interactions: { bodies: 'redacted' } }),
  )
  const server = await startServerHere({ dataDir })
  const post = async <T>(path: string, body: object): Promise<T> => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(new URL(path, server.url), { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as T
  }
  const value = 'correct-horse%battery"staple'
  await post('/v1/tools/provider_key_create', { name: 'held', provider: 'gemini', secret: value })
  const virtual = await post<{ secret: string }>('/v1/tools/virtual_key_create', { name: 'held' })
  const inBase64 = Buffer.from(`x${value}`).toString('base64')
  const content = `a ${value} b ${encodeURIComponent(value)} c ${inBase64} d ${virtual.secret} e`
  await post('/v1/peer/chat/completions', { model: 'm', messages: [{ role: 'user', content }] })
  const { interactions } = await post<{ interactions: { id: string }[] }>('/v1/tools/interaction_list', {})
  const text = JSON.stringify(await post('/v1/tools/interaction_get', { id: interactions[0]!.id }))
  // Who cannot know the secrets stores no text, but records the request.
  writeFileSync(join(dataDir, 'secret-key.json'), '{')
  await post('/v1/peer/chat/completions', { model: 'm', messages: [{ role: 'user', content }] })
  const later = await post<{ interactions: { id: string }[] }>('/v1/tools/interaction_list', {})
  const unreadable = JSON.stringify(await post('/v1/tools/interaction_get', { id: later.interactions[0]!.id }))
  await server.stop()
  await peer.stop()
  expect(text).toMatch(/a \*{3} b \*{3} c \S*\*{3}\S* d \*{3} e/)
  expect(later.interactions).toHaveLength(2)
  for (const part of ['horse', 'battery', virtual.secret]) expect(text + unreadable).not.toContain(part)
  expect(unreadable).not.toContain('"content"')
})
