import { PassThrough, Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { requireAgreement } from './confirm.ts'
import type { CommandContext } from './context.ts'

/** A command at a terminal, or with its input from elsewhere. */
function contextOf(input: string, { isTTY = true, yes = false } = {}) {
  const asked: string[] = []
  const context = {
    stdin: Object.assign(Readable.from([input]), { isTTY }),
    parsed: { isSet: (flag: string) => flag === 'yes' && yes },
    terminal: { error: (text: string) => void asked.push(text) },
    ended: new Promise<never>(() => {}),
  } as unknown as CommandContext
  return { context, asked }
}
const refusal = { code: 'ERR_CANCELLED', message: 'Nothing was changed.' }

describe('a person at a terminal', () => {
  it.each(['y\n', 'Yes\n', ' YES \n', 'y'])('agrees with %j', async (input) => {
    const { context, asked } = contextOf(input)
    await requireAgreement(context, 'Remove it?')
    expect(asked).toEqual(['Remove it? [y/N] '])
  })

  it.each(['\n', 'n\n', 'yeah\n', '', 'no\ny\n'])('does not agree with %j', async (input) => {
    await expect(requireAgreement(contextOf(input).context, 'Remove it?')).rejects.toMatchObject(refusal)
  })

  it('who presses Ctrl-C does not agree', async () => {
    const context = { ...contextOf('').context, stdin: Object.assign(new PassThrough(), { isTTY: true }) }
    const ended = Promise.resolve('SIGINT' as const)
    await expect(requireAgreement({ ...context, ended }, 'Remove it?')).rejects.toMatchObject(refusal)
  })
})

it('a script and --yes are not asked', async () => {
  for (const options of [{ isTTY: false }, { yes: true }]) {
    const { context, asked } = contextOf('', options)
    await requireAgreement(context, 'Remove it?')
    expect(asked).toEqual([])
  }
})
