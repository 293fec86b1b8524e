/**
 * The files of the machine's `/etc` to copy: those that programs in `/usr` link to or need, and that hold nothing specific to
 * this machine. A final `*` matches any suffix. Settings in which people store passwords (package managers, proxies, shells,
 * mail) are excluded.
 */
export const copiedFromEtc: readonly string[] = [
  'os-release',
  'debian_version',
  'redhat-release',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'alternatives',
  'localtime',
  'timezone',
  'locale.alias',
  'ssl/certs',
  'ssl/openssl.cnf',
  'ca-certificates',
  'ca-certificates.conf',
  'pki/tls/certs',
  'pki/tls/openssl.cnf',
  'pki/ca-trust/extracted',
  'protocols',
  'services',
  'mime.types',
  'magic',
  'magic.mime',
  'inputrc',
  'terminfo',
  'fonts',
  'groff',
  'perl',
  'maven/m2.conf',
  'maven/logging',
  'ImageMagick-*',
  'java-*',
  'python3*',
]

const PATH = '/root/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Files to generate, relative to the root of the image. */
export const writtenFiles = (shell: string): Readonly<Record<string, string>> => ({
  'etc/passwd': `root:x:0:0:root:/root:${shell}\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
  'etc/group': 'root:x:0:\nnogroup:x:65534:\n',
  'etc/hosts': '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n',
  'etc/hostname': 'workspace\n',
  'etc/resolv.conf': '',
  'etc/machine-id': '',
  'etc/host.conf': 'multi on\n',
  'etc/nsswitch.conf':
    'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n',
  // In a workspace, root may become any user, and no user may become root.
  'etc/pam.d/other':
    'auth sufficient pam_rootok.so\nauth required pam_deny.so\naccount required pam_permit.so\npassword required pam_permit.so\nsession required pam_permit.so\n',
  'etc/shells': '/bin/sh\n/bin/bash\n',
  'etc/profile': `PATH=${PATH}\nexport PATH\nif [ -n "\${BASH-}" ] && [ -r /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi\n`,
  'etc/bash.bashrc': "case $- in *i*) PS1='\\u@\\h:\\w\\$ ' ;; esac\n",
  // The machine's programs are mounted read-only, so packages are installed into the home directory.
  'etc/pip.conf': '[global]\nbreak-system-packages = true\ndisable-pip-version-check = true\n',
  'root/.npmrc': 'prefix=/root/.local\nupdate-notifier=false\nfund=false\n',
})
