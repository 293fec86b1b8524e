import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { addressesIn, answerTo, queryFor, readQuestion, TYPE_A, TYPE_AAAA } from './dns-message.ts'

const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$/)
const name = fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => labels.join('.'))

describe('messages of DNS', () => {
  it('are read as they were written, and answered for the name that was asked', () => {
    fc.assert(
      fc.property(fc.nat(0xffff), name, fc.ipV4(), (id, host, address) => {
        const query = queryFor(id, host, TYPE_A)
        const question = readQuestion(query)!
        expect(question).toMatchObject({ name: host, type: TYPE_A, end: query.length })
        const answer = answerTo(query, question, address)
        expect(answer.readUInt16BE()).toBe(id)
        expect(addressesIn(answer)).toEqual([address])
        const other = queryFor(id, host, TYPE_AAAA)
        expect(addressesIn(answerTo(other, readQuestion(other)!, address))).toEqual([])
        const none = answerTo(query, question, undefined)
        expect([none.readUInt16BE(2) & 0xf, addressesIn(none)]).toEqual([3, []])
      }),
    )
  })

  it('do no harm when they are cut or made up', () => {
    const answer = answerTo(queryFor(1, 'a.test', TYPE_A), readQuestion(queryFor(1, 'a.test', TYPE_A))!, '192.0.2.1')
    for (let length = 0; length < answer.length; length++) addressesIn(answer.subarray(0, length))
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => {
        const message = Buffer.from(bytes)
        const question = readQuestion(message)
        if (question !== undefined) expect(question.end).toBeLessThanOrEqual(message.length)
        addressesIn(message)
      }),
    )
  })

  it('that are answers, or ask more than one thing, are no questions', () => {
    const query = queryFor(1, 'a.test', TYPE_A)
    const answer = answerTo(query, readQuestion(query)!, '192.0.2.1')
    expect(readQuestion(answer)).toBeUndefined()
    const two = Buffer.from(query)
    two.writeUInt16BE(2, 4)
    expect(readQuestion(two)).toBeUndefined()
    const pointer = Buffer.from(query)
    pointer[12] = 0xc0
    expect(readQuestion(pointer)).toBeUndefined()
  })
})
