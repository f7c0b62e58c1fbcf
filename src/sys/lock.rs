//! Open-file-description locks: who lives is a question to the kernel, not to a pid.
//!
//! Such a lock belongs to the open file description. It goes when the last descriptor of it goes,
//! also by SIGKILL, also when a pid namespace dies; SIGSTOP keeps it. A fork shares it, so every
//! child of a holder must exec (the descriptors are close-on-exec).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

fn whole_file(kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Takes the write lock. `false`: another description has a lock.
pub(crate) fn try_write(fd: impl AsFd) -> io::Result<bool> {
    let wanted = whole_file(libc::F_WRLCK);
    match fcntl(fd, FcntlArg::F_OFD_SETLK(&wanted)) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether another description holds the write lock. Takes nothing.
pub(crate) fn is_written(fd: impl AsFd) -> io::Result<bool> {
    let mut found = whole_file(libc::F_RDLCK);
    fcntl(fd, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

/// Blocks until no other description holds the write lock. Takes nothing that lasts.
pub(crate) fn wait_unwritten(fd: impl AsFd) -> io::Result<()> {
    let wanted = whole_file(libc::F_RDLCK);
    loop {
        match fcntl(fd.as_fd(), FcntlArg::F_OFD_SETLKW(&wanted)) {
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    release(fd)
}

/// Gives up whatever lock this description has.
pub(crate) fn release(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK)))?;
    Ok(())
}

/// Blocks until this description of a directory has its exclusive `flock`, which goes with it.
/// Works where `fcntl` locks cannot: on a descriptor that is not open for writing.
pub(crate) fn exclusive(dir: impl AsFd) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is borrowed and so open; the call takes two numbers.
        let result = unsafe { libc::flock(dir.as_fd().as_raw_fd(), libc::LOCK_EX) };
        match Errno::result(result) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_descriptions_of_one_process_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease");
        let holder = std::fs::File::create_new(&path).unwrap();
        let looker = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        assert!(!is_written(&looker).unwrap());
        assert!(try_write(&holder).unwrap());
        assert!(is_written(&looker).unwrap());
        assert!(!try_write(&looker).unwrap());
        let waiter = std::thread::spawn(move || wait_unwritten(&looker));
        drop(holder);
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn the_kernel_frees_the_lock_of_a_killed_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease");
        std::fs::write(&path, "x").unwrap();
        let script = "import fcntl,struct,sys\nf=open(sys.argv[1],'r+')\n\
            fcntl.fcntl(f,fcntl.F_OFD_SETLK,struct.pack('hhqqi4x',fcntl.F_WRLCK,0,0,0,0))\n\
            print('held',flush=True)\nsys.stdin.read()";
        let mut child = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        assert_eq!(line, "held\n");
        let looker = std::fs::File::open(&path).unwrap();
        assert!(is_written(&looker).unwrap());
        child.kill().unwrap();
        // The zombie is not reaped yet: the lock must be free all the same.
        wait_unwritten(&looker).unwrap();
        assert!(!is_written(&looker).unwrap());
        child.wait().unwrap();
    }
}
