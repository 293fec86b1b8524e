# Exchanges what two paths name, in one step each time and as often as it can, until its input ends; then prints how often.
# With one path, a directory, it keeps making that directory and files in it.
use strict;
use warnings;
use IO::Select;
use POSIX ();

use constant { AT_FDCWD => -100, RENAME_EXCHANGE => 2 };
my $machine = (POSIX::uname())[4];
my $renameat2 = { x86_64 => 316, aarch64 => 276 }->{$machine} // die "no call numbers for $machine\n";

my ($first, $second) = @ARGV;
my $input = IO::Select->new(\*STDIN);
my $done = 0;

sub fill {
    mkdir $first;
    for my $number (0 .. 3) { open my $file, '>', "$first/$number" or last }
}

until ($input->can_read(0)) {
    for (1 .. 100) {
        if (defined $second) {
            $done++ if syscall($renameat2, AT_FDCWD, $first, AT_FDCWD, $second, RENAME_EXCHANGE) == 0;
        } else {
            fill();
            $done++;
        }
    }
}
print "$done\n";
