import { describe, expect, it } from 'vitest'
import { completionRequest } from './completion-request.ts'

const resource = (uri: string) => ({ type: 'ref/resource', uri }) as const
const judgedUri = (uri: string, name: string, context?: Record<string, string>): unknown => {
  const argument = { name, value: 'a b' }
  const { judged } = completionRequest({
    ref: resource(uri),
    argument,
    ...(context && { context: { arguments: context } }),
  })
  return 'uri' in judged.args && judged.args.uri
}

describe('what is judged of a completion', () => {
  it.each([
    ['u://{p}', 'u://a b'],
    ['u://{+p}', 'u://a b'],
    ['u://{p*}/{p:3}', 'u://a b/a b'],
    ['u://x{/p}{#p}', 'u://x/a b#a b'],
    ['u://x{?p,q}{&r}', 'u://x?p=a b&q=1{&r}'],
    ['u://{r}/{p}', 'u://{r}/a b'],
    ['u://{p,r}', 'u://a b,{r}'],
  ])('has the values of %s', (template, uri) => {
    expect(judgedUri(template, 'p', { q: '1' })).toBe(uri)
  })

  it('has all that is sent for a prompt', () => {
    const ref = { type: 'ref/prompt', name: 'up__p' } as const
    const argument = { name: 'a', value: 'new' }
    const { judged, sent } = completionRequest({ ref, argument, context: { arguments: { a: 'hidden', b: '1' } } })
    expect(judged).toEqual({ tool: 'get_mcp_prompt', args: { name: 'up__p', arguments: { a: 'new', b: '1' } } })
    expect(sent).toEqual({ ref, argument, context: { arguments: { b: '1' } } })
    expect(completionRequest({ ref, argument }).sent).toEqual({ ref, argument })
  })

  it('has all that is sent for a resource', () => {
    const argument = { name: 'p', value: 'new' }
    const context = { arguments: { p: 'hidden', q: '1', other: 'hidden' } }
    const { sent } = completionRequest({ ref: resource('u://{p}/{q}'), argument, context })
    expect(sent).toEqual({ ref: resource('u://{p}/{q}'), argument, context: { arguments: { q: '1' } } })
  })

  it.each(['u://a', 'u://{q}', 'u://{constructor}'])('is nothing for a variable that %s has not', (uri) => {
    expect(() => completionRequest({ ref: resource(uri), argument: { name: 'p', value: 'x' } })).toThrow('no variable')
  })
})
