# Formula of olvmctl for a Homebrew tap. Each release has it with its version and checksums.
class Olvmctl < Formula
  desc "Kubernetes clusters on Oracle Linux Virtualization Manager and oVirt"
  homepage "https://github.com/capolvm/cluster-api-provider-olvm"
  version "@NUMBER@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/capolvm/cluster-api-provider-olvm/releases/download/@VERSION@/olvmctl-darwin-arm64"
      sha256 "@SHA256 olvmctl-darwin-arm64@"
    end
    on_intel do
      url "https://github.com/capolvm/cluster-api-provider-olvm/releases/download/@VERSION@/olvmctl-darwin-amd64"
      sha256 "@SHA256 olvmctl-darwin-amd64@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/capolvm/cluster-api-provider-olvm/releases/download/@VERSION@/olvmctl-linux-arm64"
      sha256 "@SHA256 olvmctl-linux-arm64@"
    end
    on_intel do
      url "https://github.com/capolvm/cluster-api-provider-olvm/releases/download/@VERSION@/olvmctl-linux-amd64"
      sha256 "@SHA256 olvmctl-linux-amd64@"
    end
  end

  def install
    bin.install Dir["olvmctl-*"].first => "olvmctl"
    bin.install_symlink "olvmctl" => "kubectl-olvm"
    bin.install_symlink "olvmctl" => "clusterctl-olvm"
    generate_completions_from_executable(bin/"olvmctl", "completion")
  end

  test do
    assert_match "v#{version}", shell_output("#{bin}/olvmctl --version")
  end
end
