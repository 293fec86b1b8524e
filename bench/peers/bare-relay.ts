/**
 * The ceiling of a hop: node:http that passes each POST on to the server behind as one line, and its answer back, with no
 * authentication, no rules and no record. Ids are put in place of the client's. Takes the port as argument.
 */
import { spawn } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import { hopUpstream } from './hop-upstream.ts'

type Message = { id?: number | string; method?: string }

const upstream = spawn(hopUpstream.command, hopUpstream.args, { stdio: ['pipe', 'pipe', 'inherit'] })
const waiting = new Map<number, Readonly<{ id: number | string; response: ServerResponse }>>()
let nextId = 1
let rest = ''

upstream.stdout.setEncoding('utf8').on('data', (chunk: string) => {
  const lines = (rest + chunk).split('\n')
  rest = lines.pop() ?? ''
  for (const line of lines) {
    const message = JSON.parse(line) as Message
    const found = waiting.get(Number(message.id))
    if (found === undefined) continue
    waiting.delete(Number(message.id))
    answer(found.response, JSON.stringify({ ...message, id: found.id }))
  }
})

function answer(response: ServerResponse, text: string): void {
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  response.writeHead(200, headers)
  response.end(text)
}

createServer((request, response) => {
  let text = ''
  request.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  request.on('end', () => {
    const message = JSON.parse(text) as Message
    if (message.id === undefined) {
      upstream.stdin.write(`${text}\n`)
      response.writeHead(202).end()
      return
    }
    const id = nextId++
    waiting.set(id, { id: message.id, response })
    upstream.stdin.write(`${JSON.stringify({ ...message, id })}\n`)
  })
}).listen(Number(process.argv[2]), '127.0.0.1')
