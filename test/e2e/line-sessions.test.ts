import { expect, test } from 'vitest'
import { startClientHere } from '../support/castellan-here.ts'
import { openCliHome } from '../support/cli-home.ts'

const { dataDir } = openCliHome()

test('sessions over standard input have the time of their start in their context, at the owner and behind it', async () => {
  const before = Date.now()
  const owner = await startClientHere({ dataDir })
  const other = await startClientHere({ dataDir })
  const contextOf = async (client: typeof owner): Promise<string> =>
    JSON.stringify(await client.call('context_trust_get', { limit: 1 }))
  const contexts = [await contextOf(owner), await contextOf(owner), await contextOf(other)]
  const stamps = contexts.map((text) => Number(/session:line-(\d{13})-[0-9a-f]{32}/.exec(text)?.[1]))
  for (const stamp of stamps) expect(stamp).toBeGreaterThanOrEqual(before)
  expect(contexts[0]).toBe(contexts[1])
  expect(contexts[0]).not.toBe(contexts[2])
  await other.leave()
  await owner.leave()
})
