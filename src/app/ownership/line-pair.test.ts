import { expect, test } from 'vitest'
import { createLinePair } from './line-pair.ts'

test('a pair keeps lines for a handler that comes later, and tells of the end once', () => {
  const [near, far] = createLinePair()
  const seen: string[] = []
  near.send('early')
  far.onLine((line) => seen.push(line))
  near.send('later')
  far.onClose(() => seen.push('closed'))
  near.onLine((line) => seen.push(`back ${line}`))
  near.close()
  near.close()
  near.send('dropped')
  far.send('answer')
  expect(seen).toEqual(['early', 'later', 'closed', 'back answer'])
})
