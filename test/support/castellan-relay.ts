import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { startProgramHere } from './castellan-here.ts'

/**
 * A command `castellan` for the shells of a test that runs the program in the process of the test: the same arguments, input,
 * variables and directory, and the same output and exit code. Most of what a process takes is to load the program once more; that
 * processes start is tried elsewhere.
 */
export async function writeCastellanRelay(folder: string): Promise<AsyncDisposable> {
  const socketPath = join(folder, 'castellan.sock')
  const command = join(folder, 'castellan')
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket)
    socket.on('error', () => {}).on('close', () => open.delete(socket))
    answer(socket, command).catch((error: unknown) => {
      const text = Buffer.from(`${String(error)}\n`)
      socket.end(Buffer.concat([Buffer.from(`error ${text.length}\n`), text, Buffer.from('exit 1\n')]))
    })
  })
  server.listen(socketPath)
  await once(server, 'listening')
  writeFileSync(command, RELAY.replace('SOCKET', socketPath))
  chmodSync(command, 0o755)
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Fields end with a zero byte: the directory, how many arguments there are, these, and the same of variables; then the input. */
const RELAY = `#!/usr/bin/perl
use strict;
use warnings;
use Cwd 'getcwd';
use Socket;
my @variables = map { "$_=$ENV{$_}" } sort keys %ENV;
my $request = join "\\0", getcwd(), scalar @ARGV, @ARGV, scalar @variables, @variables, '';
{ local $/; $request .= <STDIN> // ''; }
socket(my $door, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
connect($door, sockaddr_un('SOCKET')) or die "connect: $!";
for (my $sent = 0; $sent < length $request;) { $sent += syswrite($door, $request, 65536, $sent) // die "write: $!" }
shutdown $door, 1;
while (defined(my $line = <$door>)) {
  my ($kind, $number) = $line =~ /^(\\w+) (\\d+)$/ or die 'a broken answer';
  exit $number if $kind eq 'exit';
  read($door, my $bytes, $number) == $number or die 'a broken answer';
  my $out = $kind eq 'out' ? *STDOUT : *STDERR;
  for (my $sent = 0; $sent < $number;) { $sent += syswrite($out, $bytes, $number - $sent, $sent) // exit 141 }
}
exit 1;
`

/** What shells set, and what only a process reads. */
const OF_SHELL = /^(PATH|PWD|OLDPWD|SHLVL|_|NODE_OPTIONS)$/

async function answer(socket: Socket, command: string): Promise<void> {
  const { directory, args, env, input } = parseRequest(await buffer(socket))
  const given = Object.entries(env).filter(([name, value]) => process.env[name] !== value && !OF_SHELL.test(name))
  const program = startProgramHere(args, {
    env,
    environment: Object.fromEntries(given),
    workingDirectory: directory,
    program: command,
    stdin: Readable.from(input.length === 0 ? [] : [input]),
  })
  const send = (kind: string) => (piece: Buffer) => {
    socket.write(`${kind} ${piece.length}\n`)
    socket.write(piece)
  }
  program.stdout.on('data', send('out'))
  program.stderr.on('data', send('error'))
  // The shell that gave the command is gone.
  socket.on('close', () => program.signal('SIGTERM'))
  const [code] = await Promise.all([program.ended, once(program.stdout, 'close'), once(program.stderr, 'close')])
  socket.end(`exit ${code}\n`)
}

function parseRequest(request: Buffer) {
  let at = 0
  const next = (): string => {
    const end = request.indexOf(0, at)
    const field = request.toString('utf8', at, end)
    at = end + 1
    return field
  }
  const list = (): string[] => Array.from({ length: Number(next()) }, next)
  const directory = next()
  const args = list()
  const env = Object.fromEntries(
    list().map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  )
  return { directory, args, env, input: request.subarray(at) }
}
