import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'web.fetch',
  toolset: 'web',
  title: 'Fetch a page of the web',
  description:
    'Fetch the content of a web address as text; pages come as Markdown unless you ask for their HTML. An error status is an error. To find addresses use web.search.',
  permission: 'web:read',
  tier: 'user',
  effect: 'read',
  openWorld: true,
  trust: { source: 'untrusted', sends: true },
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  governed: { url: 'url' },
  text: ({ result }) => result,
  input: z.strictObject({
    url: z.string().min(1).max(8_192).describe('Address to fetch; it begins with http:// or https://.'),
    to_markdown: z.boolean().default(true).describe('Turn a page of HTML into Markdown.'),
    follow_redirects: z.boolean().default(true).describe('Follow redirects, at most 10.'),
    timeout_secs: z.int().min(1).max(300).default(30).describe('Seconds that everything together may take.'),
  }),
  output: z.strictObject({
    result: z.string().describe('The page.'),
    url: z.string().describe('Where it was found, after redirects.'),
    http_status: z.int(),
    content_length: z.int().describe('Bytes of the answer, decompressed.'),
    content_format: z.enum(['markdown', 'html', 'text']),
  }),
  run: (input, { web, call }) => web.fetch(call, input),
})
